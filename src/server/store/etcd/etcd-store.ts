import type { EtcdConfig } from '../../../config/registry/etcd.ts';
import { recordKinds } from '../../records/kinds.ts';
import type { RecordKind, StoreStamps } from '../../records/record-kind.ts';
import { localOptions, type StoreOptions } from '../local-store.ts';
import { type RegistryDatabase, storesOf } from '../store.ts';
import { EtcdClient } from './etcd-client.ts';
import { EtcdImports } from './etcd-import.ts';
import { dropAll, type EtcdEpoch, EtcdKeys, ensureEpoch } from './etcd-keys.ts';
import { EtcdKindStore } from './etcd-kind-store.ts';
import { type EtcdListing, EtcdMirror, listKinds } from './etcd-mirror.ts';
import { EtcdWriter } from './etcd-writer.ts';
import { firstSpace, KindMirror } from './kind-mirror.ts';

/** Deadline of the first response. */
const OPEN_MS = 15_000;

export interface EtcdStoreOptions extends StoreOptions {
  /** Receives problems that occur while the registry is open. @default none */
  readonly log?: (problem: string) => void;
  /** For a new registry: revisions begin above this one. @default 0 */
  readonly base?: number;
}

/** Opens the registry under a prefix of etcd, or creates it. Any number of processes may have it open. */
export async function openEtcdStore(config: EtcdConfig, options: EtcdStoreOptions = {}): Promise<RegistryDatabase> {
  const client = new EtcdClient(config);
  const keys = new EtcdKeys(config.prefix);
  try {
    const epoch = await ensureEpoch(client, keys, OPEN_MS, options.base);
    const names = Object.values(recordKinds).map(({ name }) => name);
    const listing = await listKinds({ client, keys }, names);
    return await databaseOf({ client, keys, epoch, listing }, options);
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
}

async function databaseOf(opened: Opened, options: EtcdStoreOptions): Promise<RegistryDatabase> {
  const { client, keys, epoch, listing } = opened;
  const { log = () => {} } = options;
  const { now, ...bounds } = localOptions(options);
  const warnings: string[] = [];
  // Problems found while opening are warnings; later ones go to the log.
  let warn = (problem: string): unknown => warnings.push(problem);
  const about = { ...epoch, bounds, place: `etcd at ${client.name}`, warn: (problem: string) => void warn(problem) };
  const nothing = { head: 0n, write: '', space: firstSpace, records: [] };
  const mirrors = new Map<string, KindMirror<never>>();
  for (const kind of Object.values(recordKinds) as readonly unknown[] as readonly RecordKind<never>[]) {
    mirrors.set(kind.name, new KindMirror({ ...about, kind }, listing.kinds.get(kind.name) ?? nothing));
  }
  const mirror = new EtcdMirror({ client, keys, epoch: epoch.epoch, log }, [...mirrors.values()], listing.revision);
  const writer = new EtcdWriter(client, keys, mirror.signal);
  const imports = new EtcdImports(client, keys, writer, now);
  const shared = { client, keys, writer, imports, problem: () => mirror.problem(), now, signal: mirror.signal };
  const stores = storesOf(<R extends StoreStamps>(kind: RecordKind<R>) => {
    const ofKind = mirrors.get(kind.name) as unknown as KindMirror<R>;
    return new EtcdKindStore({ ...shared, mirror: ofKind });
  });
  warn = log;
  mirror.start();
  await imports.removeAbandoned();
  return {
    ...stores,
    warnings,
    backup: null,
    // A quorum confirms the mirror; without an alarm a change can be stored.
    writeProblem: () => mirror.problem() ?? mirror.alarm,
    async close() {
      await mirror.close();
      client.close();
    },
  };
}

const ANSWER_MS = 15_000;

export interface NewRegistry {
  readonly store: RegistryDatabase;
  /** Closes it; what was written holds. */
  keep(): Promise<void>;
  /** Closes it, and leaves nothing of it. */
  discard(): Promise<void>;
}

/** Begins a registry under a prefix where there is none. @throws where there is something already */
export async function beginInEtcd(config: EtcdConfig, base: number): Promise<NewRegistry> {
  const client = new EtcdClient(config);
  const all = new EtcdKeys(config.prefix).all();
  try {
    const request = { ...all, countOnly: true };
    const { count } = await client.ask(({ kv }, options) => kv.range(request, options), { deadlineMs: ANSWER_MS });
    if (count > 0n) {
      throw new Error(
        `etcd at ${client.name} has ${count} keys under "${config.prefix}/", which are not overwritten: ` +
          'use another prefix (etcd://…/PREFIX), or remove the keys with etcdctl del --prefix',
      );
    }
    const store = await openEtcdStore(config, { base });
    return {
      store,
      async keep() {
        await store.close();
        client.close();
      },
      async discard() {
        await store.close();
        await client.ask(({ kv }, options) => kv.txn({ success: [dropAll(all)] }, options), { deadlineMs: ANSWER_MS });
        client.close();
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}
