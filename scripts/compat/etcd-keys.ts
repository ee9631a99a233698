import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EtcdConfig } from '../../src/config/registry/etcd.ts';
import type { StoreStamps } from '../../src/server/records/record-kind.ts';
import { EtcdClient } from '../../src/server/store/etcd/etcd-client.ts';
import { EtcdKeys, textOf } from '../../src/server/store/etcd/etcd-keys.ts';
import { openEtcdStore } from '../../src/server/store/etcd/etcd-store.ts';
import { openSqliteStore } from '../../src/server/store/sqlite-store.ts';
import {
  type RegistryDatabase,
  type RegistryStore,
  recordStoreNames,
  storeNamed,
} from '../../src/server/store/store.ts';
import { startEtcd } from '../engines/etcd-cluster.ts';

/** More records than one transaction takes, so that the store moves the kind to a new space. */
const IMPORTED = 125;
const ASK_MS = 10_000;

export const COMPAT_PREFIX = 'spear-compat';

/** All keys of a registry with their values and revisions, in the order in which they were written. */
export type WrittenKeys = readonly { readonly revision: number; readonly key: string; readonly value: string }[];

export const compatEtcd = (address: string): EtcdConfig => ({
  endpoints: [`http://${address}`],
  prefix: COMPAT_PREFIX,
  tls: { ca: null, cert: null, key: null },
  login: null,
});

/** Writes `etcd-keys.json`: the records of the registry fixture, as an etcd holds them. */
export async function writeEtcdKeys(fixtures: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-compat-'));
  const etcd = await startEtcd({ members: 1 });
  try {
    cpSync(join(fixtures, 'registry'), folder, { recursive: true });
    const config = compatEtcd(etcd.members[0]?.address ?? '');
    const [source, target] = [openSqliteStore(join(folder, 'registry.db')), await openEtcdStore(config)];
    await copyRecords(source, target);
    await Promise.all([source.close(), target.close()]);
    const keys = await readKeys(config);
    const lines = keys.map((key) => JSON.stringify(key));
    writeFileSync(join(fixtures, 'etcd-keys.json'), `[\n${lines.join(',\n')}\n]\n`);
  } finally {
    await etcd.stop();
    rmSync(folder, { recursive: true });
  }
}

async function copyRecords(from: RegistryDatabase, to: RegistryDatabase): Promise<void> {
  for (const name of recordStoreNames) await copyKind(storeNamed(from, name), storeNamed(to, name));
  const uses = Array.from({ length: IMPORTED }, (_, index) => ({
    upsert: { name: `robot-${index}`, last_used_at_ms: index, updated_at_ms: 0, mod_revision: 0 },
  }));
  await to.tokenUses.apply(uses);
  await to.servers.remove('tracker');
}

async function copyKind<R extends StoreStamps>(from: RegistryStore<R>, to: RegistryStore<R>): Promise<void> {
  for (const record of (await from.list()).records) await to.upsert(record);
}

async function readKeys(config: EtcdConfig): Promise<WrittenKeys> {
  const client = new EtcdClient(config);
  const range = new EtcdKeys(COMPAT_PREFIX).all();
  const { kvs } = await client.ask(({ kv }, options) => kv.range(range, options), { deadlineMs: ASK_MS });
  client.close();
  return kvs
    .map(({ modRevision, key, value }) => ({
      revision: Number(modRevision),
      key: textOf(key),
      value: textOf(value),
    }))
    .sort((a, b) => a.revision - b.revision);
}
