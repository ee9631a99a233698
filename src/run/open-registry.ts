import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ToolboxServer, toRecords } from '../agent/mcp/toolbox-server.ts';
import { errorText } from '../base/errors.ts';
import { ignoreWaits, type Waiting, whileWaiting } from '../base/listeners.ts';
import { ConfigError } from '../config/config-error.ts';
import { stateDirectory } from '../config/directories.ts';
import { processEnvironment } from '../config/process-environment.ts';
import type {
  RegistryEndpoint,
  RegistryEndpointOptions,
  RegistryEndpointWords,
} from '../config/registry/registry-endpoint.ts';
import type { NodeApprovals } from '../registry-client/approval-port.ts';
import { RegistryCache } from '../registry-client/cache.ts';
import type { IdentityPort } from '../registry-client/identity-port.ts';
import { inProcessSource } from '../registry-client/in-process-source.ts';
import { KindCache, type RegistryStatus } from '../registry-client/kind-cache.ts';
import type { ReportTarget } from '../registry-client/node-report.ts';
import type { TaskPort } from '../registry-client/task-port.ts';
import type { OnInvalidRecord } from '../registry-client/wire-records.ts';
import { profileKind } from '../server/records/profile.ts';
import type { RecordIssue, StoreStamps } from '../server/records/record-kind.ts';
import { serverKind } from '../server/records/server.ts';
import { stopKind } from '../server/records/stop-kind.ts';
import type { ReferencePolicy } from '../server/secrets/references.ts';
import { describeProblem, loadDirectory, PROFILES_FOLDER } from '../server/store/directory/directory.ts';
import type { DirectoryProblem } from '../server/store/directory/directory-file.ts';
import { createMemoryStore, createMemoryStoreOf } from '../server/store/local-store.ts';
import type { RegistryStore } from '../server/store/store.ts';

const DEFAULT_FIRST_SNAPSHOT_MS = 5_000;

/** Where the records of MCP servers are to come from: one of `servers`, `directory` and `sms`. */
export interface RegistryOptions {
  /** The servers themselves, in the form of {@link McpToolbox}; `disabledTools` is the task's to say. */
  readonly servers?: readonly ToolboxServer[] | undefined;
  /** A directory of records, one `*.toml` or `*.json` file each. */
  readonly directory?: string | undefined;
  /** Whether a file of `directory` that is wrong refuses all of it. @default false, it is left out and a notice says so */
  readonly strict?: boolean | undefined;
  /** A running `spear-sms`, followed as long as this is open. */
  readonly sms?: SmsOptions | undefined;
  /** Whether a registry that does not answer is an error. @default true; false: a notice, and MCP comes when it answers */
  readonly required?: boolean | undefined;
  /** Variables that records of an SMS may refer to, besides `MCP_*`. @default none */
  readonly allowEnv?: readonly string[] | undefined;
  /** Files that records of an SMS may refer to, absolute; directories end with `/`. @default none */
  readonly allowFiles?: readonly string[] | undefined;
  /** Names of variables that hold keys of models: no record may refer to them. @default the names that providers use */
  readonly keyVariables?: readonly string[] | undefined;
  /** A copy of an SMS's registry that nothing confirmed for longer is refused. @default null, never */
  readonly maxStalenessMs?: number | null | undefined;
  /** How long to wait for an SMS before what earlier runs knew is used, or nothing is. @default 5 s */
  readonly firstSnapshotMs?: number | undefined;
}

export interface SmsOptions {
  /** `HOST:PORT` of its gRPC side, `http://…`, `https://…`, or `unix:` and the path of its socket. */
  readonly address: string;
  /** The node's token. @default $SPEAR_SMS_TOKEN, else the file of this user's SMS where it is on this machine */
  readonly token?: string | undefined;
  /** A file with the node's token, read again whenever it is used. @default none */
  readonly tokenFile?: string | undefined;
  /** A file of certificates to trust, as PEM. @default the system's */
  readonly ca?: string | undefined;
}

/** What whoever gave the options calls them; for messages. */
export interface RegistryWords {
  readonly servers: string;
  readonly directory: string;
  readonly sms: string;
  readonly smsTokenFile: string;
  readonly smsCa: string;
  /** What makes a registry required. */
  readonly required: string;
  /** Why a directory is refused, given what is wrong with its files. */
  readonly refused: (problems: readonly string[]) => string;
}

/** Where the records of a run come from. */
export interface RunRegistry {
  readonly cache: RegistryCache;
  /** What the records may refer to: the user's own files may use more than a registry that others write to. */
  readonly references: ReferencePolicy;
  /** Where to report what this node sees; null: nowhere. */
  readonly reports: ReportTarget | null;
  /** Its requests for approvals, as a node of this id asks for them; null: it has none. */
  readonly approvals: ((nodeId: string) => NodeApprovals) | null;
  /** Its tasks and people; null: it has none. */
  readonly platform: SmsPlatform | null;
  /** Reads a directory again: what changed is in force. Null: the records come from elsewhere. */
  readonly reload: (() => Promise<void>) | null;
  close(): Promise<void>;
}

/** Takes what is wrong with single records. */
export interface RecordProblems {
  readonly file: (directory: string, problem: DirectoryProblem) => void;
  readonly record: (serverId: string, issue: RecordIssue) => void;
  readonly profile: (name: string, issue: RecordIssue) => void;
}

/** Who opens a registry, and what for. */
export interface RegistryOpener {
  readonly words: RegistryWords;
  readonly say: (text: string) => void;
  /** Whether the task names a profile: nobody else asks for them. */
  readonly profiles: boolean;
  /** @default they are said one by one */
  readonly problems?: RecordProblems | undefined;
  readonly waiting?: Waiting | undefined;
}

export async function openRunRegistry(options: RegistryOptions, opener: RegistryOpener): Promise<RunRegistry> {
  const { words, say, waiting = ignoreWaits } = opener;
  const given = (['servers', 'sms', 'directory'] as const).filter((source) => options[source] !== undefined);
  if (given.length > 1) {
    const names = given.map((source) => words[source]).join(' and ');
    throw new ConfigError(`${names}: server definitions come from one of them; remove the other`);
  }
  const required = options.required ?? true;
  if (given.length === 0) {
    const none = `the task turns MCP on, but no registry is configured: set ${words.directory} or ${words.sms}`;
    if (required) throw new ConfigError(none);
    say(none);
  }
  const registry =
    options.sms === undefined ? await openOwn(options, opener) : await openSmsRegistry(options.sms, options, opener);
  const { cache } = registry;
  cache.start();
  const limit = options.firstSnapshotMs ?? DEFAULT_FIRST_SNAPSHOT_MS;
  const first = {
    what: `the first snapshot of the registry${options.sms === undefined ? '' : ` at ${options.sms.address}`}`,
    atMostMs: limit,
  };
  const [hasServers, hasProfiles] = await whileWaiting(
    waiting,
    first,
    Promise.all([cache.ready(limit), cache.profiles?.ready(limit) ?? true]),
  );
  if (!hasProfiles) await useSavedProfiles(registry, required, limit, opener);
  if (hasServers) return registry;
  const why = cache.status().lastError ?? `no response within ${limit} ms (mcp.first_snapshot_ms)`;
  const age = cache.useSaved();
  if (age !== null) {
    say(`the registry does not respond; using its snapshot from ${ageText(age)} ago: ${why}`);
    return registry;
  }
  if (required) {
    await registry.close();
    throw new ConfigError(`${words.required}: the registry is unreachable: ${why}`);
  }
  say(`the registry is unreachable, MCP is unavailable until it responds: ${why}`);
  return registry;
}

/** Without its profile a task gets no tools, so that is worth as much as a registry that does not answer. */
async function useSavedProfiles(
  registry: RunRegistry,
  required: boolean,
  limit: number,
  { words, say }: RegistryOpener,
): Promise<void> {
  const { profiles } = registry.cache;
  const why = profiles?.status().lastError ?? `no response within ${limit} ms (mcp.first_snapshot_ms)`;
  const age = profiles?.useSaved() ?? null;
  if (age !== null) return say(`the registry returns no profiles; using those from ${ageText(age)} ago: ${why}`);
  const text = `the registry returns no profiles, and the task names one (mcp.profile): ${why}`;
  if (required) {
    await registry.close();
    throw new ConfigError(`${words.required}: ${text}`);
  }
  say(`${text}; the task has no tools until the profiles arrive`);
}

function problemsOf({ say, problems }: RegistryOpener): RecordProblems {
  const unusable =
    (kind: string) =>
    (id: string, { path, message }: RecordIssue) =>
      say(`${kind} ${id}: invalid registry entry: ${path} ${message}`);
  const file = (directory: string, problem: DirectoryProblem) => say(describeProblem(directory, problem));
  return problems ?? { file, record: unusable('mcp'), profile: unusable('profile') };
}

/** Records of whoever runs the guest: their files, or what their program says. */
async function openOwn(options: RegistryOptions, opener: RegistryOpener): Promise<RunRegistry> {
  const { words } = opener;
  const store = createMemoryStore();
  const profileStore = opener.profiles ? createMemoryStoreOf(profileKind) : null;
  const servers = options.servers ?? [];
  const narrowed = servers.find(({ disabledTools }) => disabledTools !== undefined);
  if (narrowed !== undefined) {
    const where = `${words.servers}: ${JSON.stringify(narrowed.name)}: disabledTools`;
    throw new ConfigError(`${where}: not supported here; deny tools with "mcp.tool_denylist" in the task config`);
  }
  for (const record of toRecords(servers)) await store.upsert(record);
  const { directory } = options;
  const read = async (from: string) => {
    await readDirectory(store, from, options, opener);
    if (profileStore !== null) await readDirectory(profileStore, join(from, PROFILES_FOLDER), options, opener);
  };
  if (directory !== undefined) await read(directory);
  const profiles = profileStore && new KindCache({ kind: profileKind, source: inProcessSource(profileStore) });
  const cache = new RegistryCache({ source: inProcessSource(store), profiles });
  return {
    cache,
    references: { mode: 'user_owned', names: [], paths: [], backendKeyNames: options.keyVariables ?? [] },
    reports: null,
    approvals: null,
    platform: null,
    reload: directory === undefined ? null : () => read(directory),
    close: async () => {
      await cache.close();
      await Promise.all([store.close(), profileStore?.close()]);
    },
  };
}

async function readDirectory<R extends StoreStamps>(
  store: RegistryStore<R>,
  directory: string,
  { strict = false }: RegistryOptions,
  opener: RegistryOpener,
): Promise<void> {
  const { words } = opener;
  const where = `${words.directory} ${directory}`;
  const optional = store.kind.name === 'profile';
  const { outcome, problems } = await loadDirectory(store, directory, { strict, dryRun: false, optional }).catch(
    (error: unknown) => {
      throw new ConfigError(`${where}: ${(error as Error).message}`);
    },
  );
  for (const problem of problems) problemsOf(opener).file(directory, problem);
  if (outcome !== 'refused') return;
  const texts = problems.map((problem) => describeProblem(directory, problem));
  throw new ConfigError(`${where}: ${words.refused(texts)}`);
}

async function openSmsRegistry(
  { address: sms, token, tokenFile, ca }: SmsOptions,
  { maxStalenessMs = null, allowEnv = [], allowFiles = [], keyVariables = [] }: RegistryOptions,
  opener: RegistryOpener,
): Promise<RunRegistry> {
  const { words, say } = opener;
  const { record, profile } = problemsOf(opener);
  const opened = await openSms({
    endpoint: { sms, token, tokenFile, ca },
    words: { sms: words.sms, tokenFile: words.smsTokenFile, ca: words.smsCa },
    maxStalenessMs,
    onInvalidRecord: record,
    onInvalidProfile: profile,
    profiles: opener.profiles,
    say,
  });
  const references = { mode: 'listed', names: allowEnv, paths: allowFiles, backendKeyNames: keyVariables } as const;
  return { ...opened, references, reload: null };
}

function ageText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

export interface OpenSmsOptions {
  readonly endpoint: RegistryEndpointOptions;
  /** What messages call the fields of `endpoint`. */
  readonly words: RegistryEndpointWords;
  readonly maxStalenessMs: number | null;
  readonly onInvalidRecord: OnInvalidRecord;
  readonly onInvalidProfile: OnInvalidRecord;
  /** Whether profiles are followed too. */
  readonly profiles: boolean;
  readonly say: (text: string) => void;
}

export interface OpenedSms {
  readonly cache: RegistryCache;
  readonly reports: ReportTarget;
  readonly approvals: (nodeId: string) => NodeApprovals;
  readonly platform: SmsPlatform;
  close(): Promise<void>;
}

/** What a node needs of an SMS, and a single run does not. */
export interface SmsPlatform {
  /** As people write it. */
  readonly address: string;
  tasks(onInvalid: OnInvalidRecord): TaskPort;
  readonly identities: IdentityPort;
}

/** Follows the registry of an SMS, from where earlier runs of this user left off. */
export async function openSms({
  endpoint,
  words,
  maxStalenessMs,
  profiles,
  ...told
}: OpenSmsOptions): Promise<OpenedSms> {
  // gRPC is worth its loading time only to a run that uses it.
  const [
    { findRegistryForNode, unprintedWarning },
    { createRemoteSource },
    { failoverSource },
    { readSnapshotFile, snapshotPath },
    { keepSnapshot },
  ] = await Promise.all([
    import('../config/registry/registry-endpoint.ts'),
    import('../registry-client/remote-source.ts'),
    import('../registry-client/failover.ts'),
    import('../registry-client/snapshot-file.ts'),
    import('../registry-client/keep-snapshot.ts'),
  ]);
  const { others, ...first } = findRegistryForNode(endpoint, processEnvironment, words);
  const { address } = first;
  const warning = unprintedWarning(first, processEnvironment);
  if (warning !== null) told.say(warning);
  const { onInvalidRecord, onInvalidProfile } = told;
  const remote = ({ url, socket, token, ca }: RegistryEndpoint) =>
    createRemoteSource({ address: url, socket, token, ca, onInvalidRecord, onInvalidProfile });
  const source = failoverSource([remote(first), ...others.map(remote)]);
  const directory = stateDirectory(processEnvironment);
  const path = directory === null ? null : snapshotPath(directory, address);
  const profilesPath = directory === null || !profiles ? null : snapshotPath(directory, address, '-profiles');
  const saved = path === null ? null : await readSnapshotFile(path, address, serverKind);
  const stopsPath = directory === null ? null : snapshotPath(directory, address, '-stops');
  const savedStops = stopsPath === null ? null : await readSnapshotFile(stopsPath, address, stopKind);
  // Earlier versions saved servers alone: they knew of no stop. A file that cannot be read may have stops.
  const isEarlier = stopsPath !== null && !existsSync(stopsPath);
  const none =
    saved && isEarlier
      ? { ...saved, snapshot: { epoch: saved.snapshot.epoch, revision: 0, records: new Map() } }
      : null;
  const stopCache = new KindCache({
    ...{ kind: stopKind, source: source.stops, maxStalenessMs },
    saved: savedStops ?? none,
  });
  const profileCache = profiles
    ? new KindCache({
        kind: profileKind,
        source: source.profiles,
        maxStalenessMs,
        saved: profilesPath === null ? null : await readSnapshotFile(profilesPath, address, profileKind),
      })
    : null;
  const cache = new RegistryCache({ source, maxStalenessMs, saved, profiles: profileCache, stops: stopCache });
  let before: RegistryStatus['state'] = 'starting';
  cache.onStatus((status) => {
    const text = statusText(status, before);
    if (text !== null) told.say(text);
    before = status.state;
  });
  cache.onReplaced(({ revision, records }) =>
    told.say(
      `the registry was replaced (restored from a backup?): it is at revision ${revision} ` +
        `with ${records.size} servers, which apply from now on`,
    ),
  );
  const onFailure = (error: unknown) =>
    told.say(`cannot cache the registry snapshot for later runs: ${errorText(error)}`);
  const keep = <R extends StoreStamps>(of: KindCache<R> | null, at: string | null, promptly = false) =>
    of === null || at === null ? () => {} : keepSnapshot(of, { path: at, source: address, promptly, onFailure });
  // Stops are saved at once, not every few seconds: a node that is killed and restarts without the registry applies them.
  const stops = [keep(cache, path), keep(profileCache, profilesPath), keep(stopCache, stopsPath, true)];
  return {
    cache,
    reports: source,
    approvals: (nodeId) => source.approvals(nodeId),
    platform: { address, tasks: (onInvalid) => source.tasks(onInvalid), identities: source.identities },
    close: async () => {
      for (const stop of stops) await stop();
      await cache.close();
      source.close();
    },
  };
}

function statusText({ state, lastError }: RegistryStatus, before: RegistryStatus['state']): string | null {
  switch (state) {
    case 'degraded':
      return `the registry is unreachable; using its last snapshot: ${lastError}`;
    case 'refused':
      return `the registry rejects this node; MCP stops soon unless the node gets a valid token: ${lastError}`;
    case 'stale':
      return before === 'refused'
        ? `MCP is unavailable: the registry still rejects this node: ${lastError}`
        : 'MCP is unavailable: the registry snapshot is older than mcp.max_staleness_ms';
    default:
      return null;
  }
}
