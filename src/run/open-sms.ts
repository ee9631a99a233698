import { existsSync } from 'node:fs';
import { errorText } from '../base/error-text.ts';
import { stateDirectory } from '../base/xdg-directories.ts';
import { processEnvironment } from '../config/process-environment.ts';
import type { SmsEndpoint, SmsEndpointOptions, SmsEndpointWords } from '../config/sms/client.ts';
import type { NodeApprovals } from '../registry-client/approval-port.ts';
import { RegistryCache } from '../registry-client/cache.ts';
import type { IdentityPort } from '../registry-client/identity-port.ts';
import { KindCache, type RegistryStatus } from '../registry-client/kind-cache.ts';
import type { ReportTarget } from '../registry-client/node-report.ts';
import type { TaskPort } from '../registry-client/task-port.ts';
import type { OnInvalidRecord } from '../registry-client/wire-records.ts';
import { profileKind } from '../server/records/profile-kind.ts';
import type { StoreStamps } from '../server/records/record-kind.ts';
import { serverKind } from '../server/records/server-kind.ts';
import { stopKind } from '../server/records/stop-kind.ts';

export interface OpenSmsOptions {
  readonly endpoint: SmsEndpointOptions;
  /** What messages call the fields of `endpoint`. */
  readonly words: SmsEndpointWords;
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
    { findSmsNode, unprintedWarning },
    { createRemoteSource },
    { failoverSource },
    { readSnapshotFile, snapshotPath },
    { keepSnapshot },
  ] = await Promise.all([
    import('../config/sms/client.ts'),
    import('../registry-client/remote-source.ts'),
    import('../registry-client/failover.ts'),
    import('../registry-client/snapshot-file.ts'),
    import('../registry-client/keep-snapshot.ts'),
  ]);
  const { others, ...first } = findSmsNode(endpoint, processEnvironment, words);
  const { address } = first;
  const warning = unprintedWarning(first, processEnvironment);
  if (warning !== null) told.say(warning);
  const { onInvalidRecord, onInvalidProfile } = told;
  const remote = ({ url, socket, token, ca }: SmsEndpoint) =>
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
