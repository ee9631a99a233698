import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { z } from 'zod';
import { DEFAULT_POOL } from '../../server/records/field-rules.ts';
import type { SchemaKit } from '../document.ts';
import { type NodeLimitName, type NodeLimits, nodeLimitSpecs } from '../limits.ts';

export const DEFAULT_NODE_ADDRESS = '127.0.0.1:8090';
const MAX_NAME_CHARS = 64;

/** Deciders about calls that need an approval: the users of the registry, or none, which denies every such call. */
const approvers = ['sms', 'deny'] as const;

/** `[node]` of the host's config file. */
export const nodeTable = ({ z, strictTable, limitFields, plainName, nonEmpty }: SchemaKit) => {
  const tokens = z.int().min(1).optional();
  const namespaceBudgets = strictTable({ tokens_per_day: tokens, tokens_per_caller_per_day: tokens });
  const submitter = strictTable({ name: plainName, namespace: plainName, token_file: nonEmpty.optional() });
  return strictTable({
    listen: nonEmpty.optional(),
    data: nonEmpty.optional(),
    name: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/, 'expected 1 to 64 letters, digits, ".", "_" or "-"')
      .optional(),
    pool: plainName.optional(),
    queue: nonEmpty.optional(),
    tls: strictTable({ cert: nonEmpty, key: nonEmpty }).optional(),
    allowed_hosts: z.array(nonEmpty).optional(),
    stream_models: z.boolean().optional(),
    approve: z.enum(approvers).optional(),
    submitters: z.array(submitter).optional(),
    budgets: z.record(plainName, namespaceBudgets).optional(),
    ...limitFields(nodeLimitSpecs),
  });
};

type NodeDocument = z.infer<ReturnType<typeof nodeTable>>;

/** Identity that may submit runs in one namespace. */
export interface Submitter {
  readonly name: string;
  readonly namespace: string;
  /** Null: in the data directory. */
  readonly tokenFile: string | null;
}

/** Daily token budgets of a namespace; null: unlimited. */
export interface NamespaceBudgets {
  readonly tokensPerDay: number | null;
  /** Budget of each submitter in the namespace. */
  readonly tokensPerCallerPerDay: number | null;
}

/** `[node]`, every field set; paths are absolute. */
export interface CompiledNode {
  readonly listen: string;
  /** Null: the default under the user's state directory. */
  readonly data: string | null;
  readonly name: string;
  readonly pool: string;
  /** `nats://…`; null: the queue is a file in the data directory. */
  readonly queue: string | null;
  /** Null: unencrypted, on loopback only. */
  readonly tls: { readonly cert: string; readonly key: string } | null;
  readonly allowedHosts: readonly string[];
  /** Whether model responses are streamed into the events of a run. */
  readonly streamModels: boolean;
  /** Null: the users of the registry if one is configured, else `deny`. */
  readonly approve: (typeof approvers)[number] | null;
  readonly submitters: readonly Submitter[];
  /** Keyed by namespace. */
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
