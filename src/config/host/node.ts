import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { DEFAULT_POOL } from '../../server/records/task.ts';
import { type NodeLimitName, type NodeLimits, nodeLimitSpecs } from './node-limits.ts';
import type { approvers, NodeDocument } from './node-schema.ts';

export const DEFAULT_NODE_ADDRESS = '127.0.0.1:8090';
const MAX_NAME_CHARS = 64;

/** Somebody who may submit runs in one namespace. */
export interface Submitter {
  readonly name: string;
  readonly namespace: string;
  /** Null: beside the data. */
  readonly tokenFile: string | null;
}

/** Tokens of a namespace, by the day; null: no bound. */
export interface NamespaceBudgets {
  readonly tokensPerDay: number | null;
  /** Of each who submits runs there. */
  readonly tokensPerCallerPerDay: number | null;
}

/** `[node]`, every field set; paths are absolute. */
export interface CompiledNode {
  readonly listen: string;
  /** Null: the state directory of this user. */
  readonly data: string | null;
  readonly name: string;
  readonly pool: string;
  /** `nats://…`; null: runs are kept under the data. */
  readonly queue: string | null;
  /** Null: it speaks in clear, on loopback alone. */
  readonly tls: { readonly cert: string; readonly key: string } | null;
  readonly allowedHosts: readonly string[];
  /** Whether models are asked for a stream, so that events of a run have what they say while they say it. */
  readonly streamModels: boolean;
  /** Null: the people of the registry where there is one, else nobody. */
  readonly approve: (typeof approvers)[number] | null;
  readonly submitters: readonly Submitter[];
  /** By namespace. */
  readonly budgets: ReadonlyMap<string, NamespaceBudgets>;
  readonly limits: NodeLimits;
}

export function compileNode(document: NodeDocument = {}, folder: string): CompiledNode {
  const names = Object.keys(nodeLimitSpecs) as NodeLimitName[];
  const limits = names.map((name) => [name, document[name] ?? nodeLimitSpecs[name].default]);
  return Object.freeze({
    listen: document.listen ?? DEFAULT_NODE_ADDRESS,
    data: document.data === undefined ? null : resolve(folder, document.data),
    name: document.name ?? ownName(),
    pool: document.pool ?? DEFAULT_POOL,
    queue: document.queue ?? null,
    tls: document.tls === undefined ? null : tlsIn(document.tls, folder),
    allowedHosts: document.allowed_hosts ?? [],
    streamModels: document.stream_models ?? true,
    approve: document.approve ?? null,
    submitters: (document.submitters ?? []).map(({ name, namespace, token_file }) => ({
      name,
      namespace,
      tokenFile: token_file === undefined ? null : resolve(folder, token_file),
    })),
    budgets: new Map(
      Object.entries(document.budgets ?? {}).map(([name, { tokens_per_day, tokens_per_caller_per_day }]) => [
        name,
        { tokensPerDay: tokens_per_day ?? null, tokensPerCallerPerDay: tokens_per_caller_per_day ?? null },
      ]),
    ),
    limits: Object.freeze(Object.fromEntries(limits)) as NodeLimits,
  });
}

const tlsIn = ({ cert, key }: NonNullable<NodeDocument['tls']>, folder: string) => ({
  cert: resolve(folder, cert),
  key: resolve(folder, key),
});

const ownName = () =>
  hostname()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, MAX_NAME_CHARS) || 'node';
