import type { z } from 'zod';
import { didYouMean } from '../../base/validation.ts';
import type { Secret, SecretSources } from '../../server/secrets/secret.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import { auditTable, type CompiledAudit, compileAudit } from '../audit.ts';
import { ConfigError } from '../config-error.ts';
import { type ConfigFile, findConfigFile, type ReadTextFile, readTextFile } from '../config-file.ts';
import type { SchemaKit } from '../document.ts';
import { type CompiledEgress, compileEgress, egressTable } from '../egress.ts';
import { type CompiledNats, compileNats, natsTable } from '../nats.ts';
import { type CompiledNode, compileNode, nodeTable } from '../node/node-config.ts';
import { type ConfigOrigin, readKey, secretSourcesOf } from '../secret-reference.ts';
import { type CompiledTelemetry, compileTelemetry, telemetryKeyVariables, telemetryTable } from '../telemetry.ts';
import { backendOfEnvironment, backendsTable, type CompiledBackend, compileBackend } from './backends.ts';
import { type CompiledProxy, compileProxy, NO_PROXY } from './proxy.ts';

export type { CompiledEgress } from '../egress.ts';
export type {
  CompiledBackend,
  CompiledOpenAiBackend,
  CompiledScriptedBackend,
  CompiledStubBackend,
} from './backends.ts';
export type { CompiledProxy } from './proxy.ts';

/** How a node runs stdio servers: as their records say, only in a sandbox, or not at all. */
const stdioPolicies = ['allow', 'sandboxed', 'deny'] as const;
export type StdioPolicy = (typeof stdioPolicies)[number];

export interface HostConfigOptions {
  /** The file named on the command line. @default SPEAR_CONFIG, else the user's own file if there is one */
  file?: string | undefined;
  env: NodeJS.ProcessEnv;
  /** @default reads the file system */
  readFile?: ReadTextFile;
  /** Reads what `file:` references name. @default `readFile` where it is given, else files that only their owner may read */
  readSecret?: ReadTextFile;
}

const DEFAULT_FIRST_SNAPSHOT_MS = 5_000;

/** `[mcp]`: resources of this host that server records may refer to, and the maximum age of its registry copy. */
const mcpTable = ({ z, strictTable, nonEmpty }: SchemaKit) =>
  strictTable({
    allow_env: z.array(nonEmpty).optional(),
    allow_files: z.array(z.string().startsWith('/', 'must be an absolute path')).optional(),
    max_staleness_ms: z.int().min(1000).optional(),
    first_snapshot_ms: z.int().min(0).max(600_000).optional(),
    stdio: z.enum(stdioPolicies).optional(),
    approval_rules: z.array(z.unknown()).optional(), // checked by agent/policy
  });

/** The host's config file. A new top-level table is one entry here and one step in {@link loadHostConfig}. */
const hostDocument = (kit: SchemaKit) =>
  kit.strictTable({
    default_backend: kit.nonEmpty.optional(),
    backends: backendsTable(kit).optional(),
    mcp: mcpTable(kit).optional(),
    egress: egressTable(kit).optional(),
    audit: auditTable(kit).optional(),
    journal: kit.strictTable({ key: kit.secretReference.optional() }).optional(),
    node: nodeTable(kit).optional(),
    telemetry: telemetryTable(kit).optional(),
    nats: natsTable(kit).optional(),
  });

type HostDocument = z.infer<ReturnType<typeof hostDocument>>;

/** `[mcp]`: limits on records of a registry that other users write to. */
export interface CompiledNodeMcp {
  /** Environment variables besides MCP_* that records may refer to. @default none */
  readonly allowEnv: readonly string[];
  /** Absolute paths that records may refer to; a directory ends with a slash. @default none */
  readonly allowFiles: readonly string[];
  /** Maximum time since the registry confirmed the local copy; an older copy is not used. @default null, unlimited */
  readonly maxStalenessMs: number | null;
  /** How long a run waits for the registry before it continues with the cached records, or with none. @default 5 s */
  readonly firstSnapshotMs: number;
  /** @default null: `allow` for the user's own files, `sandboxed` for a registry that other users write to */
  readonly stdio: StdioPolicy | null;
  /** Unchecked approval rules; agent/policy/approval-rules-parse.ts checks them. @default none */
  readonly approvalRules: readonly unknown[];
}

export interface CompiledJournal {
  /** Reads the key when a journal is opened; null: no key. @throws ConfigError */
  readonly key: (() => Secret) | null;
}

/** The host's configuration, read and checked once. */
export interface CompiledHostConfig {
  /** Path of the config file as the user wrote it; undefined: the environment alone defined the configuration. */
  readonly file: string | undefined;
  readonly backends: ReadonlyMap<string, CompiledBackend>;
  /** A key of `backends`. */
  readonly defaultBackend: string;
  readonly proxy: CompiledProxy;
  readonly mcp: CompiledNodeMcp;
  readonly egress: CompiledEgress;
  readonly audit: CompiledAudit;
  readonly journal: CompiledJournal;
  /** Settings of a node (`spearlet`); no other program uses them. */
  readonly node: CompiledNode;
  /** Export of traces and metrics; null: none. */
  readonly telemetry: CompiledTelemetry | null;
  /** Connection to the queue of a cluster, if the node has one. */
  readonly nats: CompiledNats;
  /** Variables with keys of models, audit logs, journals, collectors and queues. Records must not refer to them. */
  readonly keyVariables: readonly string[];
}

export async function loadHostConfig(options: HostConfigOptions): Promise<CompiledHostConfig> {
  const { env, readFile = readTextFile, readSecret = options.readFile ?? readSecretFile } = options;
  const file = findConfigFile(options.file, { variable: 'SPEAR_CONFIG', name: 'config.toml' }, env, readFile);
  const document = file === undefined ? {} : await readHostFile(file);
  const sources = { env, readFile: readSecret };
  const backends = compileBackends(document, file, sources);
  return Object.freeze({
    file: file?.path,
    backends,
    defaultBackend: chooseDefault(document.default_backend, [...backends.keys()], file),
    mcp: Object.freeze({
      allowEnv: document.mcp?.allow_env ?? [],
      allowFiles: document.mcp?.allow_files ?? [],
      maxStalenessMs: document.mcp?.max_staleness_ms ?? null,
      firstSnapshotMs: document.mcp?.first_snapshot_ms ?? DEFAULT_FIRST_SNAPSHOT_MS,
      stdio: document.mcp?.stdio ?? null,
      approvalRules: document.mcp?.approval_rules ?? [],
    }),
    egress: compileEgress(document.egress),
    audit: compileAudit(document.audit, file, sources),
    journal: compileJournal(document.journal, file, sources),
    node: compileNode(document.node, file?.folder ?? '.'),
    telemetry: compileTelemetry(document.telemetry, file, sources),
    nats: compileNats(document.nats, file, sources),
    keyVariables: Object.freeze(keyVariables(document)),
    // A proxy variable that nothing uses must not keep an offline run from starting.
    proxy: [...backends.values()].some((backend) => backend.kind === 'openai') ? compileProxy(env) : NO_PROXY,
  });
}

// Loading the TOML parser and zod dominates the start-up time of a config, so only a process with a file does.
async function readHostFile(file: ConfigFile): Promise<HostDocument> {
  const { readDocument, schemaKit } = await import('../document.ts');
  return readDocument(file, hostDocument(schemaKit));
}

function compileJournal(table: HostDocument['journal'], file: ConfigOrigin, sources: SecretSources): CompiledJournal {
  const { key } = table ?? {};
  const read = secretSourcesOf(file, sources);
  return Object.freeze({ key: key === undefined ? null : () => readKey(key, `${file?.path}: journal.key`, read) });
}

function compileBackends(
  document: HostDocument,
  file: ConfigFile | undefined,
  sources: SecretSources,
): ReadonlyMap<string, CompiledBackend> {
  const tables = Object.entries(document.backends ?? {});
  if (file === undefined || tables.length === 0) {
    const backend = backendOfEnvironment(sources.env);
    return new Map([[backend.name, backend]]);
  }
  return new Map(tables.map(([name, table]) => [name, compileBackend(name, table, file, sources)]));
}

function keyVariables(document: HostDocument): string[] {
  const references = Object.values(document.backends ?? {}).flatMap((table) =>
    table.kind === 'openai' ? [table.api_key ?? '', ...Object.values(table.headers ?? {})] : [],
  );
  const named = [...references, document.audit?.key ?? '', document.journal?.key ?? '', document.nats?.creds ?? '']
    .filter((reference) => reference.startsWith('env:'))
    .map((reference) => reference.slice('env:'.length));
  return [...named, ...telemetryKeyVariables(document.telemetry)];
}

function chooseDefault(named: string | undefined, valid: readonly string[], file: ConfigFile | undefined): string {
  const [first = '', ...others] = valid;
  if (named === undefined) {
    if (others.length === 0) return first;
    throw new ConfigError(`${file?.path}: default_backend is missing: name one of ${valid.join(', ')}`);
  }
  if (valid.includes(named)) return named;
  const hint = didYouMean(named, valid);
  const meant = hint === undefined ? '' : `, ${hint}`;
  throw new ConfigError(
    `${file?.path}: default_backend: there is no backend "${named}"${meant} (defined: ${valid.join(', ')})`,
  );
}
