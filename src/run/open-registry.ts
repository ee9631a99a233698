import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ToolboxServer, toRecords } from '../agent/mcp/toolbox-server.ts';
import { errorText } from '../base/errors.ts';
import { ignoreWaits, type Waiting, whileWaiting } from '../base/listeners.ts';
import { ConfigError } from '../config/config-error.ts';
import { stateDirectory } from '../config/directories.ts';
import { processEnvironment } from '../config/process-environment.ts';
import type { RegistryEndpoint } from '../config/registry/registry-endpoint.ts';
import { RegistryCache } from '../registry-client/cache.ts';
import { KindCache, type RegistryStatus } from '../registry-client/kind-cache.ts';
import type { ReportTarget } from '../registry-client/node-report.ts';
import type { IdentityPort, NodeApprovals, OnInvalidRecord, TaskPort } from '../registry-client/ports.ts';
import { inProcessSource } from '../registry-client/source.ts';
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

/*
 * Opens the registry of a run or a node: records passed as options, a directory of files, or a remote `spear-sms`. A
 * remote registry is followed while this is open; its snapshots are saved, and a later process starts with them if the
 * registry does not respond. Stops are saved at once, so that a node that restarts without the registry applies them.
 */

/** Source of MCP server records: one of `servers`, `directory` and `sms`. */
export interface RegistryOptions {
  /** The servers, in the form of {@link McpToolbox}; tools are disabled in the task's config instead of `disabledTools`. */
  readonly servers?: readonly ToolboxServer[] | undefined;
  /** A directory of records, one `*.toml` or `*.json` file each. */
  readonly directory?: string | undefined;
  /** Whether an invalid file in `directory` is an error. @default false: the file is skipped with a notice */
  readonly strict?: boolean | undefined;
  /** A running `spear-sms`, followed while this is open. */
  readonly sms?: SmsOptions | undefined;
  /** Whether an unreachable registry is an error. @default true; false: a notice, and MCP starts when the registry responds */
  readonly required?: boolean | undefined;
  /** Variables that records of a remote registry may reference, besides `MCP_*`. @default none */
  readonly allowEnv?: readonly string[] | undefined;
  /** Absolute paths of files that records of a remote registry may reference; directories end with `/`. @default none */
  readonly allowFiles?: readonly string[] | undefined;
  /** Variables with model keys, which no record may reference. @default the names that providers use */
  readonly keyVariables?: readonly string[] | undefined;
  /** Maximum age of an unconfirmed snapshot of a remote registry. @default null: unlimited */
  readonly maxStalenessMs?: number | null | undefined;
  /** How long to wait for a remote registry before the saved snapshot is used. @default 5 s */
  readonly firstSnapshotMs?: number | undefined;
}

export interface SmsOptions {
  /** `HOST:PORT` of its gRPC listener, `http://…`, `https://…`, or `unix:` and the path of its socket. */
  readonly address: string;
  /** The node's token. @default $SPEAR_SMS_TOKEN, else the token file of this user's registry on this machine */
  readonly token?: string | undefined;
  /** File with the node's token, read again for each use. @default none */
  readonly tokenFile?: string | undefined;
  /** PEM file with the certificates to trust. @default the system's */
  readonly ca?: string | undefined;
}

/** Names of the options in the caller's terms (flags, fields), for messages. */
export interface RegistryWords {
  readonly servers: string;
  readonly directory: string;
  readonly sms: string;
  readonly smsTokenFile: string;
  readonly smsCa: string;
  /** Option that makes the registry required. */
  readonly required: string;
  /** Message for a rejected directory, given the problems of its files. */
  readonly refused: (problems: readonly string[]) => string;
}

/** An open registry. */
export interface RunRegistry {
  readonly cache: RegistryCache;
  /** What records may reference: files of the user may use more than a registry that others write to. */
  readonly references: ReferencePolicy;
  /** Target of node reports; null: none. */
  readonly reports: ReportTarget | null;
  /** Approvals, for a node with this id; null: none. */
  readonly approvals: ((nodeId: string) => NodeApprovals) | null;
  /** Tasks and users; null: none. */
  readonly platform: SmsPlatform | null;
  /** Reloads the directory; null: the records come from elsewhere. */
  readonly reload: (() => Promise<void>) | null;
  close(): Promise<void>;
}

/** Receives problems of single records. */
export interface RecordProblems {
  readonly file: (directory: string, problem: DirectoryProblem) => void;
  readonly record: (serverId: string, issue: RecordIssue) => void;
  readonly profile: (name: string, issue: RecordIssue) => void;
}

/** Context of the caller. */
export interface RegistryOpener {
  readonly words: RegistryWords;
  readonly say: (text: string) => void;
  /** Whether the task uses a profile; otherwise profiles are not loaded. */
  readonly profiles: boolean;
  /** @default one message each */
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
    options.sms === undefined ? await openOwn(options, opener) : await openRemoteRegistry(options.sms, options, opener);
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

/** A task without its profile has no tools, so missing profiles are handled like an unreachable registry. */
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

/** Records of the user: a directory, or the `servers` option. */
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

function ageText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/** Services of a remote registry that a node needs, and a single run does not. */
export interface SmsPlatform {
  /** Address as configured. */
  readonly address: string;
  tasks(onInvalid: OnInvalidRecord): TaskPort;
  readonly identities: IdentityPort;
}

/** Follows a remote registry, starting from the snapshot that earlier runs of this user saved. */
export async function openRemoteRegistry(
  { address: sms, token, tokenFile, ca }: SmsOptions,
  { maxStalenessMs = null, allowEnv = [], allowFiles = [], keyVariables = [] }: RegistryOptions,
  opener: RegistryOpener,
): Promise<RunRegistry> {
  const { say, profiles } = opener;
  const { record: onInvalidRecord, profile: onInvalidProfile } = problemsOf(opener);
  const words = { sms: opener.words.sms, tokenFile: opener.words.smsTokenFile, ca: opener.words.smsCa };
  // gRPC is loaded only for runs that use it.
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
    import('../registry-client/snapshot-file.ts'),
  ]);
  const { others, ...first } = findRegistryForNode({ sms, token, tokenFile, ca }, processEnvironment, words);
  const { address } = first;
  const warning = unprintedWarning(first, processEnvironment);
  if (warning !== null) say(warning);
  const remote = ({ url, socket, token, ca }: RegistryEndpoint) =>
    createRemoteSource({ address: url, socket, token, ca, onInvalidRecord, onInvalidProfile });
  const source = failoverSource([remote(first), ...others.map(remote)]);
  const directory = stateDirectory(processEnvironment);
  const path = directory === null ? null : snapshotPath(directory, address);
  const profilesPath = directory === null || !profiles ? null : snapshotPath(directory, address, '-profiles');
  const saved = path === null ? null : await readSnapshotFile(path, address, serverKind);
  const stopsPath = directory === null ? null : snapshotPath(directory, address, '-stops');
  const savedStops = stopsPath === null ? null : await readSnapshotFile(stopsPath, address, stopKind);
  // Earlier versions saved no stops. An unreadable file may contain stops.
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
    if (text !== null) say(text);
    before = status.state;
  });
  cache.onReplaced(({ revision, records }) =>
    say(
      `the registry was replaced (restored from a backup?): it is at revision ${revision} ` +
        `with ${records.size} servers, which apply from now on`,
    ),
  );
  const onFailure = (error: unknown) => say(`cannot cache the registry snapshot for later runs: ${errorText(error)}`);
  const keep = <R extends StoreStamps>(of: KindCache<R> | null, at: string | null, promptly = false) =>
    of === null || at === null ? () => {} : keepSnapshot(of, { path: at, source: address, promptly, onFailure });
  // Stops are saved at once, not every few seconds: a node that is killed and restarts without the registry applies them.
  const stops = [keep(cache, path), keep(profileCache, profilesPath), keep(stopCache, stopsPath, true)];
  return {
    cache,
    references: { mode: 'listed', names: allowEnv, paths: allowFiles, backendKeyNames: keyVariables },
    reload: null,
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
