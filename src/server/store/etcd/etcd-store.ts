import type { EtcdConfig } from '../../../config/registry/etcd.ts';
import { type Approval, approvalKind } from '../../records/approval.ts';
import { type PinnedDefinition, pinKind } from '../../records/pin.ts';
import { type McpProfile, profileKind } from '../../records/profile.ts';
import type { RecordKind, StoreStamps } from '../../records/record-kind.ts';
import { type McpServerRecord, serverKind } from '../../records/server.ts';
import type { StopRecord } from '../../records/stop.ts';
import { stopKind } from '../../records/stop-kind.ts';
import { type TaskRecord, type TaskRevisionRecord, taskKind, taskRevisionKind } from '../../records/task.ts';
import { type TokenRecord, type TokenUse, tokenKind, tokenUseKind } from '../../records/token.ts';
import type { KeptRegistry } from '../kept-registry.ts';
import { localOptions, type StoreOptions } from '../memory-store.ts';
import type { RegistryStore } from '../store.ts';
import { EtcdClient } from './etcd-client.ts';
import { type EtcdEpoch, ensureEpoch } from './etcd-epoch.ts';
import { EtcdImports } from './etcd-import.ts';
import { EtcdKeys } from './etcd-keys.ts';
import { EtcdKindStore } from './etcd-kind-store.ts';
import { type EtcdListing, listKinds } from './etcd-list.ts';
import { type AnyKindMirror, EtcdMirror } from './etcd-mirror.ts';
import { EtcdWriter } from './etcd-writer.ts';
import { firstSpace, KindMirror } from './kind-mirror.ts';

/** For the first answer of an etcd. */
const OPEN_MS = 15_000;

const kinds = [
  ...[serverKind, profileKind, approvalKind, pinKind],
  ...[tokenKind, tokenUseKind, taskKind, taskRevisionKind, stopKind],
] as const;

export interface EtcdStoreOptions extends StoreOptions {
  /** What goes wrong while it is open. @default nothing */
  readonly log?: (problem: string) => void;
  /** What its revisions begin above, where it is new. @default 0 */
  readonly base?: number;
}

/** Opens the registry that an etcd holds under a prefix, or begins one there. Any number of processes may have it open. */
export async function openEtcdStore(config: EtcdConfig, options: EtcdStoreOptions = {}): Promise<KeptRegistry> {
  const client = new EtcdClient(config);
  const keys = new EtcdKeys(config.prefix);
  try {
    const epoch = await ensureEpoch(client, keys, OPEN_MS, options.base);
    const names = kinds.map(({ name }) => name);
    const listing = await listKinds({ client, keys }, names);
    const store = new OpenEtcdStore({ client, keys, epoch, listing, place: `etcd at ${client.name}` }, options);
    await store.removeAbandoned();
    return store;
  } catch (error) {
    client.close();
    throw error;
  }
}

interface Opened {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
  readonly epoch: EtcdEpoch;
  readonly listing: EtcdListing;
  /** For messages. */
  readonly place: string;
}

class OpenEtcdStore extends EtcdKindStore<McpServerRecord> implements KeptRegistry {
  readonly #client: EtcdClient;
  readonly #mirror: EtcdMirror;
  readonly #imports: EtcdImports;
  readonly profiles: RegistryStore<McpProfile>;
  readonly approvals: RegistryStore<Approval>;
  readonly pins: RegistryStore<PinnedDefinition>;
  readonly tokens: RegistryStore<TokenRecord>;
  readonly tokenUses: RegistryStore<TokenUse>;
  readonly tasks: RegistryStore<TaskRecord>;
  readonly taskRevisions: RegistryStore<TaskRevisionRecord>;
  readonly stops: RegistryStore<StopRecord>;
  readonly warnings: string[] = [];
  readonly backup = null;

  constructor(opened: Opened, options: EtcdStoreOptions) {
    const { client, keys, epoch, listing, place } = opened;
    const { log = () => {} } = options;
    const { now, ...bounds } = localOptions(options);
    const warnings: string[] = [];
    let warn = (problem: string): void => {
      warnings.push(problem);
    };
    const mirrors: AnyKindMirror[] = [];
    const mirrorOf = <R extends StoreStamps>(kind: RecordKind<R>): KindMirror<R> => {
      const empty = { head: 0n, write: '', space: firstSpace, records: [] };
      const mirror = new KindMirror(
        { kind, ...epoch, bounds, place, warn: (problem) => warn(problem) },
        listing.kinds.get(kind.name) ?? empty,
      );
      mirrors.push(mirror);
      return mirror;
    };
    const all = {
      server: mirrorOf(serverKind),
      profile: mirrorOf(profileKind),
      approval: mirrorOf(approvalKind),
      pin: mirrorOf(pinKind),
      token: mirrorOf(tokenKind),
      tokenUse: mirrorOf(tokenUseKind),
      task: mirrorOf(taskKind),
      taskRevision: mirrorOf(taskRevisionKind),
      stop: mirrorOf(stopKind),
    };
    const mirror = new EtcdMirror({ client, keys, epoch: epoch.epoch, log }, mirrors, listing.revision);
    const writer = new EtcdWriter(client, keys, mirror.signal);
    const imports = new EtcdImports(client, keys, writer, now);
    const shared = { client, keys, writer, imports, problem: () => mirror.problem(), now, signal: mirror.signal };
    super({ ...shared, mirror: all.server });
    this.#client = client;
    this.#mirror = mirror;
    this.#imports = imports;
    this.profiles = new EtcdKindStore({ ...shared, mirror: all.profile });
    this.approvals = new EtcdKindStore({ ...shared, mirror: all.approval });
    this.pins = new EtcdKindStore({ ...shared, mirror: all.pin });
    this.tokens = new EtcdKindStore({ ...shared, mirror: all.token });
    this.tokenUses = new EtcdKindStore({ ...shared, mirror: all.tokenUse });
    this.tasks = new EtcdKindStore({ ...shared, mirror: all.task });
    this.taskRevisions = new EtcdKindStore({ ...shared, mirror: all.taskRevision });
    this.stops = new EtcdKindStore({ ...shared, mirror: all.stop });
    this.warnings = warnings;
    warn = log;
    mirror.start();
  }

  removeAbandoned(): Promise<void> {
    return this.#imports.removeAbandoned();
  }

  /** Where the mirror is confirmed by a quorum, and no alarm is raised, a change can be stored. */
  writeProblem(): string | null {
    return this.#mirror.problem() ?? this.#mirror.alarm;
  }

  override async close(): Promise<void> {
    await this.#mirror.close();
    this.#client.close();
  }
}
