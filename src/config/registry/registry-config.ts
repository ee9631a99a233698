import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import { recordLimits } from '../../server/records/field-rules.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import {
  DEFAULT_GRPC_ADDRESS,
  DEFAULT_HTTP_ADDRESS,
  isLoopbackHost,
  type ListenAddress,
  parseListenAddress,
} from '../address.ts';
import { type CompiledAudit, compileAudit, registryAuditTable } from '../audit.ts';
import { ConfigError } from '../config-error.ts';
import { type ConfigFile, findConfigFile, type ReadTextFile, readTextFile } from '../config-file.ts';
import { defaultRegistryDirectory, filesOfRegistry, type RegistryFiles } from '../directories.ts';
import { limitFields, readDocument, schemaKit, strictTable } from '../document.ts';
import { type CompiledEgress, compileEgress, egressTable } from '../egress.ts';
import { type RegistryLimits, registryLimitSpecs } from '../limits.ts';
import { type CompiledNats, compileNats, type QueueAddress, queueAddress, registryNatsTable } from '../nats.ts';
import { type CompiledTelemetry, compileTelemetry, telemetryTable } from '../telemetry.ts';
import { compileEtcd, ETCD_SCHEME, type EtcdConfig, etcdTable } from './etcd.ts';
import { compileOidc, type OidcConfig, oidcTable } from './oidc.ts';

/*
 * Configuration of a registry: the schema of its file, and the merge of flags, SMS_* variables, file and defaults into one
 * frozen object with absolute paths. Secrets are not read here but when they are used. Rejects configurations that would
 * expose an unauthenticated or unencrypted listener beyond loopback. Paths in the file are relative to the file.
 */

const { nonEmpty: text } = schemaKit;
const { kept_changes, max_bytes, ...limits } = limitFields(registryLimitSpecs);
const names = z.array(text);

const MAX_APPROVER_RULES = 256;
const MAX_NEEDED_APPROVERS = 16;
const patterns = z.array(text.max(recordLimits.patternChars)).max(recordLimits.patterns).optional();

/** `[[approvals.rules]]`: approvers of the calls that match. */
const approverRule = strictTable({
  name: text.max(128).optional(),
  namespaces: patterns,
  servers: patterns,
  tools: patterns,
  approvers: patterns,
  needed: z.int().min(1).max(MAX_NEEDED_APPROVERS).optional(),
  allow_self: z.boolean().optional(),
});

/** The registry's config file. */
const smsDocument = strictTable({
  grpc: strictTable({ listen: text.optional() }).optional(),
  http: strictTable({
    listen: text.optional(),
    allowed_hosts: names.optional(),
    allowed_origins: names.optional(),
  }).optional(),
  store: strictTable({
    file: text.optional(),
    url: text.optional(),
    etcd: etcdTable.optional(),
    kept_changes,
    max_bytes,
  }).optional(),
  mcp: strictTable({
    registry_dir: text.optional(),
    strict: z.boolean().optional(),
    allow_mass_removal: z.boolean().optional(),
    allow_server_test: z.boolean().optional(),
  }).optional(),
  tasks: strictTable({ dir: text.optional(), blob_dir: text.optional() }).optional(),
  runs: strictTable({ queue: text.optional() }).optional(),
  nats: registryNatsTable(schemaKit).optional(),
  approvals: strictTable({ rules: z.array(approverRule).max(MAX_APPROVER_RULES).optional() }).optional(),
  egress: egressTable(schemaKit).optional(),
  audit: registryAuditTable(schemaKit).optional(),
  telemetry: telemetryTable(schemaKit).optional(),
  tls: strictTable({ cert: text.optional(), key: text.optional() }).optional(),
  auth: strictTable({
    admin_token_file: text.optional(),
    node_token_file: text.optional(),
    insecure_no_auth: z.boolean().optional(),
    allow_plaintext_beyond_loopback: z.boolean().optional(),
  }).optional(),
  oidc: oidcTable.optional(),
  limits: strictTable(limits).optional(),
});

type SmsDocument = z.infer<typeof smsDocument>;

/** Command-line flags; undefined: not given. */
export interface RegistryConfigFlags {
  readonly config?: string | undefined;
  readonly grpc?: string | undefined;
  readonly http?: string | undefined;
  readonly data?: string | undefined;
  readonly store?: string | undefined;
  readonly queue?: string | undefined;
  readonly registryDir?: string | undefined;
  readonly taskDir?: string | undefined;
  readonly strict?: boolean | undefined;
  readonly allowMassRemoval?: boolean | undefined;
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  readonly insecureNoAuth?: boolean | undefined;
  readonly allowPlaintextBeyondLoopback?: boolean | undefined;
}

/** The registry's configuration, read and checked once. All paths are absolute. */
export interface RegistryConfig {
  readonly grpc: ListenAddress;
  readonly http: ListenAddress;
  readonly files: RegistryFiles;
  /** Etcd with the records; null: the records are in `files.data`. */
  readonly etcd: EtcdConfig | null;
  /** Run queue of the nodes; null: this registry accepts no runs. */
  readonly queue: RegistryQueueConfig | null;
  readonly registryDir: string | null;
  readonly taskDir: string | null;
  readonly strict: boolean;
  /** Whether loading the directory may remove most of the records that came from it. */
  readonly allowMassRemoval: boolean;
  readonly tls: { readonly cert: string; readonly key: string } | null;
  /** False: every local caller has every permission. */
  readonly auth: boolean;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly allowServerTest: boolean;
  /** Allowed hosts of HTTP servers that the registry tests. */
  readonly egress: CompiledEgress;
  /** Login of users with an OpenID provider; null: disabled. */
  readonly oidc: OidcConfig | null;
  /** The registry's audit log; null: disabled. */
  readonly audit: RegistryAuditConfig | null;
  /** Export of traces and metrics; null: none. */
  readonly telemetry: CompiledTelemetry | null;
  readonly limits: RegistryLimits;
  /** Approvers by call; the first matching rule applies. */
  readonly approverRules: readonly ApproverRule[];
}

/** Approvers of the calls that match. */
export interface ApproverRule {
  readonly name: string;
  /** Patterns, as are `servers` and `tools`. */
  readonly namespaces: readonly string[];
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  /** Names of the permitted approvers; null: every user with the approver role. */
  readonly approvers: readonly string[] | null;
  /** Number of approvals that a call needs. */
  readonly needed: number;
  /** Whether the submitter of a run may approve its calls. */
  readonly allowSelf: boolean;
}

/** Run queue and the connection to it. */
export type RegistryQueueConfig = QueueAddress & Omit<CompiledNats, 'replicas' | 'plainText'>;

export type RegistryAuditConfig = Omit<CompiledAudit, 'args' | 'file'> & { readonly file: string };

export interface RegistryConfigOptions {
  readonly flags: RegistryConfigFlags;
  readonly env: NodeJS.ProcessEnv;
  /** @default reads the file system */
  readonly readFile?: ReadTextFile;
}

/** Loads the configuration. Flags override variables, variables override the file, the file overrides the defaults. */
export function loadRegistryConfig({ flags, env, readFile = readTextFile }: RegistryConfigOptions): RegistryConfig {
  const file = findConfigFile(flags.config, { variable: 'SMS_CONFIG', name: 'sms.toml' }, env, readFile);
  const document = file === undefined ? {} : readDocument(file, smsDocument);
  const path = pathReader(file?.folder ?? '.');
  const grpc = address('grpc', flags.grpc, env.SMS_GRPC, document.grpc?.listen, DEFAULT_GRPC_ADDRESS);
  const http = address('http', flags.http, env.SMS_HTTP, document.http?.listen, DEFAULT_HTTP_ADDRESS);
  const noAuth = flags.insecureNoAuth ?? flag(env, 'SMS_INSECURE_NO_AUTH') ?? document.auth?.insecure_no_auth ?? false;
  const files = dataFiles(path(flags.data, env.SMS_DATA, document.store?.file), env, {
    admin: path(undefined, env.SMS_ADMIN_TOKEN_FILE, document.auth?.admin_token_file),
    node: path(undefined, env.SMS_NODE_TOKEN_FILE, document.auth?.node_token_file),
    blobs: path(undefined, env.SMS_BLOB_DIR, document.tasks?.blob_dir),
  });
  const config: RegistryConfig = {
    grpc,
    http,
    files,
    etcd: etcdOf(flags, document, file, env),
    queue: queueOf(flags, document, file, env),
    registryDir: path(flags.registryDir, env.SMS_MCP_REGISTRY_DIR || env.SMS_MCP_DIR, document.mcp?.registry_dir),
    taskDir: path(flags.taskDir, env.SMS_TASK_DIR, document.tasks?.dir),
    strict: flags.strict ?? flag(env, 'SMS_STRICT') ?? document.mcp?.strict ?? false,
    allowMassRemoval:
      flags.allowMassRemoval ?? flag(env, 'SMS_ALLOW_MASS_REMOVAL') ?? document.mcp?.allow_mass_removal ?? false,
    tls: tlsFiles(
      path(flags.tlsCert, env.SMS_TLS_CERT, document.tls?.cert),
      path(flags.tlsKey, env.SMS_TLS_KEY, document.tls?.key),
    ),
    auth: !noAuth,
    allowedHosts: document.http?.allowed_hosts ?? [],
    allowedOrigins: document.http?.allowed_origins ?? [],
    allowServerTest: document.mcp?.allow_server_test ?? false,
    egress: compileEgress(document.egress),
    oidc: compileOidc(document.oidc, env),
    audit: auditOf(document, file, files, env),
    telemetry: compileTelemetry(document.telemetry, file, { env, readFile: readSecretFile }),
    limits: limitsOf(document),
    approverRules: approverRulesOf(document),
  };
  const allowPlaintext =
    flags.allowPlaintextBeyondLoopback ??
    flag(env, 'SMS_ALLOW_PLAINTEXT_BEYOND_LOOPBACK') ??
    document.auth?.allow_plaintext_beyond_loopback ??
    false;
  refuseExposure(config, allowPlaintext);
  return Object.freeze(config);
}

function etcdOf(
  flags: RegistryConfigFlags,
  { store }: SmsDocument,
  file: ConfigFile | undefined,
  env: NodeJS.ProcessEnv,
): EtcdConfig | null {
  const [from, url] = firstGiven(
    ['--store', flags.store],
    ['SMS_STORE', env.SMS_STORE || undefined],
    ['store.url', store?.url],
  );
  if (url === undefined) {
    if (store?.etcd === undefined) return null;
    throw new ConfigError('store.etcd is set, but neither --store nor store.url names an etcd');
  }
  if (!url.startsWith(ETCD_SCHEME)) {
    throw new ConfigError(`${from}: expected ${ETCD_SCHEME}HOST:PORT,…, found "${url}"; use --data for a file`);
  }
  return compileEtcd(url, from, store?.etcd, file?.folder ?? '.', env);
}

function queueOf(
  flags: RegistryConfigFlags,
  { runs, nats: table }: SmsDocument,
  file: ConfigFile | undefined,
  env: NodeJS.ProcessEnv,
): RegistryQueueConfig | null {
  const [from, address] = firstGiven(
    ['--queue', flags.queue],
    ['SMS_QUEUE', env.SMS_QUEUE || undefined],
    ['runs.queue', runs?.queue],
  );
  if (address === undefined) {
    if (table === undefined) return null;
    throw new ConfigError('[nats] is set, but neither --queue nor runs.queue names a queue');
  }
  const nats = compileNats(table, file, { env, readFile: readSecretFile });
  const { creds, accounts, ca, identity, patienceMs, submitTimeoutMs } = nats;
  return Object.freeze({
    ...queueAddress(address, from, nats),
    creds,
    accounts,
    ca,
    identity,
    patienceMs,
    submitTimeoutMs,
  });
}

type Candidate = readonly [from: string, text: string | undefined];

/** The text with the highest precedence, and the name of its source for messages. */
function firstGiven(flag: Candidate, variable: Candidate, field: Candidate): Candidate {
  return [flag, variable].find(([, text]) => text !== undefined) ?? field;
}

const everything: readonly string[] = Object.freeze(['*']);

function approverRulesOf({ approvals }: SmsDocument): readonly ApproverRule[] {
  const rules = (approvals?.rules ?? []).map((rule, index) => ({
    name: rule.name ?? `rule ${index + 1}`,
    namespaces: Object.freeze(rule.namespaces ?? everything),
    servers: Object.freeze(rule.servers ?? everything),
    tools: Object.freeze(rule.tools ?? everything),
    approvers: rule.approvers === undefined ? null : Object.freeze(rule.approvers),
    needed: rule.needed ?? 1,
    allowSelf: rule.allow_self ?? false,
  }));
  return Object.freeze(rules);
}

/** Rejects a configuration that would send tokens, commands and secrets over a network unencrypted by accident. */
function refuseExposure(config: RegistryConfig, allowPlaintext: boolean): void {
  for (const [name, { host, port }] of [['grpc', config.grpc] as const, ['http', config.http] as const]) {
    if (isLoopbackHost(host)) continue;
    if (!config.auth) {
      throw new ConfigError(`--insecure-no-auth works on loopback only, and ${name} would listen on ${host}:${port}`);
    }
    if (config.tls !== null || allowPlaintext) continue;
    throw new ConfigError(
      `${name} would listen on ${host}:${port}, which other machines can reach, without TLS: set --tls-cert and --tls-key, ` +
        'or --allow-plaintext-beyond-loopback to send tokens and data unencrypted',
    );
  }
}

function address(
  name: 'grpc' | 'http',
  flagText: string | undefined,
  variable: string | undefined,
  field: string | undefined,
  fallback: string,
): ListenAddress {
  const [from, text = fallback] = firstGiven(
    [`--${name}`, flagText],
    [`SMS_${name.toUpperCase()}`, variable || undefined],
    [`${name}.listen`, field],
  );
  const parsed = parseListenAddress(text);
  if (parsed === null) throw new ConfigError(`${from}: expected HOST:PORT, found "${text}"`);
  return parsed;
}

function flag(env: NodeJS.ProcessEnv, name: string): boolean | undefined {
  const text = env[name]?.toLowerCase();
  if (text === undefined || text === '') return undefined;
  if (['1', 'true', 'yes', 'on'].includes(text)) return true;
  if (['0', 'false', 'no', 'off'].includes(text)) return false;
  throw new ConfigError(`${name}: expected true or false, found "${env[name]}"`);
}

type ReadPath = (
  flagText: string | undefined,
  variable: string | undefined,
  field: string | undefined,
) => string | null;

function pathReader(folder: string): ReadPath {
  return (flagText, variable, field) => {
    const given = flagText ?? (variable || undefined);
    if (given !== undefined) return resolve(given);
    return field === undefined ? null : resolve(folder, field);
  };
}

function dataFiles(
  data: string | null,
  env: NodeJS.ProcessEnv,
  given: { readonly admin: string | null; readonly node: string | null; readonly blobs: string | null },
): RegistryFiles {
  const directory = data === null ? defaultRegistryDirectory(env) : dirname(data);
  if (directory === null) {
    throw new ConfigError('no data directory: set --data, XDG_STATE_HOME or HOME');
  }
  const files = filesOfRegistry(directory);
  return {
    ...files,
    data: data ?? files.data,
    blobs: given.blobs ?? files.blobs,
    adminToken: given.admin ?? files.adminToken,
    nodeToken: given.node ?? files.nodeToken,
  };
}

function auditOf(
  { audit: table }: SmsDocument,
  file: ConfigFile | undefined,
  files: RegistryFiles,
  env: NodeJS.ProcessEnv,
): RegistryAuditConfig | null {
  if (table?.enabled === false) return null;
  const { args: _, ...audit } = compileAudit(table, file, { env, readFile: readSecretFile });
  return Object.freeze({ ...audit, file: audit.file ?? files.audit });
}

function tlsFiles(cert: string | null, key: string | null): RegistryConfig['tls'] {
  if (cert === null && key === null) return null;
  if (cert === null || key === null) {
    throw new ConfigError(
      `--tls-cert and --tls-key must be set together, and --tls-${cert === null ? 'cert' : 'key'} is missing`,
    );
  }
  return { cert, key };
}

function limitsOf(document: SmsDocument): RegistryLimits {
  const { kept_changes, max_bytes } = document.store ?? {};
  const given = { ...document.limits, kept_changes, max_bytes };
  const entries = Object.entries(registryLimitSpecs).map(([name, spec]) => [
    name,
    given[name as keyof typeof given] ?? spec.default,
  ]);
  return Object.freeze(Object.fromEntries(entries)) as RegistryLimits;
}
