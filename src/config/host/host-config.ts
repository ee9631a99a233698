import { didYouMean } from '../../base/nearest-key.ts';
import type { StdioPolicy } from '../../server/records/record.ts';
import type { SecretSources } from '../../server/secrets/secret.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import { isCollectorNamed, telemetryKeyVariables } from '../collector-named.ts';
import { ConfigError } from '../config-error.ts';
import { type ConfigFile, findConfigFile, type ReadTextFile, readTextFile } from '../config-file.ts';
import { type CompiledEgress, compileEgress } from '../egress.ts';
import { type CompiledNats, compileNats } from '../nats.ts';
import type { CompiledTelemetry } from '../telemetry.ts';
import { type CompiledAudit, compileAudit } from './audit.ts';
import { backendOfEnvironment, type CompiledBackend, compileBackend } from './backends.ts';
import { type CompiledJournalTable, compileJournalTable } from './journal.ts';
import { type CompiledNode, compileNode } from './node.ts';
import { type CompiledProxy, compileProxy, NO_PROXY } from './proxy.ts';
import type { HostDocument } from './schema.ts';

export type { CompiledEgress } from '../egress.ts';
export type {
  CompiledBackend,
  CompiledOpenAiBackend,
  CompiledScriptedBackend,
  CompiledStubBackend,
} from './backends.ts';
export type { CompiledProxy } from './proxy.ts';

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

/** What records of a registry that others write to may use of this node. */
export interface CompiledNodeMcp {
  /** Variables besides MCP_*. @default none */
  readonly allowEnv: readonly string[];
  /** Absolute paths, directories with a slash at their end. @default none */
  readonly allowFiles: readonly string[];
  /** A copy of the registry that nothing confirmed for longer is refused. @default null, never */
  readonly maxStalenessMs: number | null;
  /** How long a run waits for the registry before it goes on with what earlier runs knew, or without. @default 5 s */
  readonly firstSnapshotMs: number;
  /** @default null: `allow` for the user's own files, `sandboxed` for a registry that others write to */
  readonly stdio: StdioPolicy | null;
  /** Rules about calls of tools, as they are written; policy/approval-rules-parse.ts reads them. @default none */
  readonly approvalRules: readonly unknown[];
}

/** The host's configuration, read and checked once. */
export interface CompiledHostConfig {
  /** The file it came from, in the user's spelling; undefined when the environment alone defined it. */
  readonly file: string | undefined;
  readonly backends: ReadonlyMap<string, CompiledBackend>;
  /** A key of `backends`. */
  readonly defaultBackend: string;
  readonly proxy: CompiledProxy;
  readonly mcp: CompiledNodeMcp;
  readonly egress: CompiledEgress;
  readonly audit: CompiledAudit;
  readonly journal: CompiledJournalTable;
  /** What a `spearlet` of this config is; nothing else looks at it. */
  readonly node: CompiledNode;
  /** Where traces and metrics go; null: nowhere. */
  readonly telemetry: CompiledTelemetry | null;
  /** How the queue of a cluster is reached, where a node has one. */
  readonly nats: CompiledNats;
  /** Names of the variables that hold keys of models, of the trail, of journals, of collectors and of queues. No record may refer to them. */
  readonly keyVariables: readonly string[];
}

export async function loadHostConfig(options: HostConfigOptions): Promise<CompiledHostConfig> {
  const { env, readFile = readTextFile, readSecret = options.readFile ?? readSecretFile } = options;
  const file = findConfigFile(options.file, { variable: 'SPEAR_CONFIG', name: 'config.toml' }, env, readFile);
  const document = file === undefined ? {} : await parse(file);
  const backends = compileBackends(document, file, { env, readSecret });
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
    audit: compileAudit(document.audit, file, { env, readFile: readSecret }),
    journal: compileJournalTable(document.journal, file, { env, readFile: readSecret }),
    node: compileNode(document.node, file?.folder ?? '.'),
    telemetry: await compileTelemetry(document, file, { env, readFile: readSecret }),
    nats: compileNats(document.nats, file, { env, readFile: readSecret }),
    keyVariables: Object.freeze(keyVariables(document)),
    // A proxy variable that nothing uses must not keep an offline run from starting.
    proxy: [...backends.values()].some((backend) => backend.kind === 'openai') ? compileProxy(env) : NO_PROXY,
  });
}

// The parser and the schema cost more start-up time than everything else here: only who has a file pays.
async function parse(file: ConfigFile): Promise<HostDocument> {
  const [{ readTomlFile }, { checkHostDocument }] = await Promise.all([import('../toml.ts'), import('./schema.ts')]);
  return readTomlFile(file, checkHostDocument);
}

/** Loaded only where a collector is named. */
async function compileTelemetry(
  { telemetry }: HostDocument,
  file: ConfigFile | undefined,
  sources: SecretSources,
): Promise<CompiledTelemetry | null> {
  if (!isCollectorNamed(telemetry, sources.env)) return null;
  return (await import('../telemetry.ts')).compileTelemetry(telemetry, file, sources);
}

function compileBackends(
  document: HostDocument,
  file: ConfigFile | undefined,
  sources: { env: NodeJS.ProcessEnv; readSecret: ReadTextFile },
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
