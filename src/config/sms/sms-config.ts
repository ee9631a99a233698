import { dirname, resolve } from 'node:path';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import { ConfigError } from '../config-error.ts';
import { type ConfigFile, findConfigFile, type ReadTextFile, readTextFile } from '../config-file.ts';
import { type CompiledEgress, compileEgress } from '../egress.ts';
import { type CompiledAudit, compileAudit } from '../host/audit.ts';
import { type CompiledNats, compileNats, type QueueAddress, queueAddress } from '../nats.ts';
import { type CompiledTelemetry, compileTelemetry } from '../telemetry.ts';
import { readTomlFile } from '../toml.ts';
import {
  DEFAULT_GRPC_ADDRESS,
  DEFAULT_HTTP_ADDRESS,
  isLoopbackHost,
  type ListenAddress,
  parseListenAddress,
} from './address.ts';
import { compileEtcd, ETCD_SCHEME, type EtcdConfig } from './etcd.ts';
import { type SmsLimits, smsLimitSpecs } from './limits.ts';
import { compileOidc, type OidcConfig } from './oidc.ts';
import { defaultSmsDirectory, type SmsFiles, smsFiles } from './paths.ts';
import { checkSmsDocument, type SmsDocument } from './schema.ts';

/** What the command line said; undefined where it said nothing. */
export interface SmsFlags {
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
export interface SmsConfig {
  readonly grpc: ListenAddress;
  readonly http: ListenAddress;
  readonly files: SmsFiles;
  /** Where the records are instead of `files.data`; null: they are in that file. */
  readonly etcd: EtcdConfig | null;
  /** Where runs wait for the nodes; null: this registry takes none. */
  readonly queue: SmsQueue | null;
  readonly registryDir: string | null;
  readonly taskDir: string | null;
  readonly strict: boolean;
  /** Whether a load of the directory may remove most of the records that came from it. */
  readonly allowMassRemoval: boolean;
  readonly tls: { readonly cert: string; readonly key: string } | null;
  /** False: everybody on this machine may do everything. */
  readonly auth: boolean;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly allowServerTest: boolean;
  /** Where HTTP servers that are tested here may be. */
  readonly egress: CompiledEgress;
  /** People who log in elsewhere; null: nobody does. */
  readonly oidc: OidcConfig | null;
  /** Its own trail; null: it keeps none. */
  readonly audit: SmsAudit | null;
  /** Where traces and metrics go; null: nowhere. */
  readonly telemetry: CompiledTelemetry | null;
  readonly limits: SmsLimits;
  /** Who decides about which calls; the first that matches counts. */
  readonly approverRules: readonly ApproverRule[];
}

/** Who decides about what, in one namespace or several. */
export interface ApproverRule {
  readonly name: string;
  /** Patterns, like those that follow. */
  readonly namespaces: readonly string[];
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  /** Names of who may; null: everybody who may decide at all. */
  readonly approvers: readonly string[] | null;
  /** How many have to allow it. */
  readonly needed: number;
  /** Whether the submitter of a run may approve its calls. */
  readonly allowSelf: boolean;
}

/** A queue, and how it is reached. */
export type SmsQueue = QueueAddress & Omit<CompiledNats, 'replicas' | 'plainText'>;

export type SmsAudit = Omit<CompiledAudit, 'args' | 'file'> & { readonly file: string };

export interface SmsConfigOptions {
  readonly flags: SmsFlags;
  readonly env: NodeJS.ProcessEnv;
  /** @default reads the file system */
  readonly readFile?: ReadTextFile;
}

/** Flags come before variables, variables before the file, the file before the defaults. */
export function loadSmsConfig({ flags, env, readFile = readTextFile }: SmsConfigOptions): SmsConfig {
  const file = findConfigFile(flags.config, { variable: 'SMS_CONFIG', name: 'sms.toml' }, env, readFile);
  const document = file === undefined ? {} : readTomlFile(file, checkSmsDocument);
  const path = pathReader(file?.folder ?? '.');
  const grpc = address('grpc', flags.grpc, env.SMS_GRPC, document.grpc?.listen, DEFAULT_GRPC_ADDRESS);
  const http = address('http', flags.http, env.SMS_HTTP, document.http?.listen, DEFAULT_HTTP_ADDRESS);
  const noAuth = flags.insecureNoAuth ?? flag(env, 'SMS_INSECURE_NO_AUTH') ?? document.auth?.insecure_no_auth ?? false;
  const files = dataFiles(path(flags.data, env.SMS_DATA, document.store?.file), env, {
    admin: path(undefined, env.SMS_ADMIN_TOKEN_FILE, document.auth?.admin_token_file),
    node: path(undefined, env.SMS_NODE_TOKEN_FILE, document.auth?.node_token_file),
    blobs: path(undefined, env.SMS_BLOB_DIR, document.tasks?.blob_dir),
  });
  const config: SmsConfig = {
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
  flags: SmsFlags,
  { store }: SmsDocument,
  file: ConfigFile | undefined,
  env: NodeJS.ProcessEnv,
): EtcdConfig | null {
  const [from, url] =
    flags.store !== undefined
      ? ['--store', flags.store]
      : env.SMS_STORE
        ? ['SMS_STORE', env.SMS_STORE]
        : ['store.url', store?.url];
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
  flags: SmsFlags,
  { runs, nats: table }: SmsDocument,
  file: ConfigFile | undefined,
  env: NodeJS.ProcessEnv,
): SmsQueue | null {
  const [from, address] =
    flags.queue !== undefined
      ? ['--queue', flags.queue]
      : env.SMS_QUEUE
        ? ['SMS_QUEUE', env.SMS_QUEUE]
        : ['runs.queue', runs?.queue];
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

/** Tokens, commands and secrets must not cross a network in clear by accident. */
function refuseExposure(config: SmsConfig, allowPlaintext: boolean): void {
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
  const [from, text] =
    flagText !== undefined
      ? [`--${name}`, flagText]
      : variable
        ? [`SMS_${name.toUpperCase()}`, variable]
        : [`${name}.listen`, field ?? fallback];
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
): SmsFiles {
  const directory = data === null ? defaultSmsDirectory(env) : dirname(data);
  if (directory === null) {
    throw new ConfigError('no data directory: set --data, XDG_STATE_HOME or HOME');
  }
  const files = smsFiles(directory);
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
  files: SmsFiles,
  env: NodeJS.ProcessEnv,
): SmsAudit | null {
  if (table?.enabled === false) return null;
  const { args: _, ...audit } = compileAudit(table, file, { env, readFile: readSecretFile });
  return Object.freeze({ ...audit, file: audit.file ?? files.audit });
}

function tlsFiles(cert: string | null, key: string | null): SmsConfig['tls'] {
  if (cert === null && key === null) return null;
  if (cert === null || key === null) {
    throw new ConfigError(
      `--tls-cert and --tls-key must be set together, and --tls-${cert === null ? 'cert' : 'key'} is missing`,
    );
  }
  return { cert, key };
}

function limitsOf(document: SmsDocument): SmsLimits {
  const { kept_changes, max_bytes } = document.store ?? {};
  const given = { ...document.limits, kept_changes, max_bytes };
  const entries = Object.entries(smsLimitSpecs).map(([name, spec]) => [
    name,
    given[name as keyof typeof given] ?? spec.default,
  ]);
  return Object.freeze(Object.fromEntries(entries)) as SmsLimits;
}
