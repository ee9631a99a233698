import { afterEach, beforeEach, expect, it } from 'vitest';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import type { RegistryChange } from '../../src/registry-client/snapshot.ts';
import { inProcessSource } from '../../src/registry-client/source.ts';
import { createMemoryStore } from '../../src/server/store/local-store.ts';
import type { RegistryStore } from '../../src/server/store/store.ts';
import { sampleRecord } from '../server/records/server-samples.ts';

let store: RegistryStore;
let cache: RegistryCache;

beforeEach(() => {
  store = createMemoryStore({ keptChanges: 5, watcherQueue: 5 });
  cache = new RegistryCache({ source: inProcessSource(store), timing: { backoff: { firstMs: 1, maxMs: 5 } } });
});
afterEach(async () => {
  await cache.close();
  await store.close();
});

function changeWhere(wanted: (change: RegistryChange) => boolean): Promise<RegistryChange> {
  return new Promise((resolve) => {
    const stop = cache.onChange((change) => {
      if (!wanted(change)) return;
      stop();
      resolve(change);
    });
  });
}

it('follows a store of the same process', async () => {
  await store.upsert(sampleRecord('a'));
  cache.start();
  expect(await cache.ready(10_000)).toBe(true);
  const made = changeWhere((change) => change.upserted.includes('b'));
  const { record } = await store.upsert(sampleRecord('b'));
  expect((await made).snapshot.records.get('b')).toEqual(record);
  const gone = changeWhere((change) => change.deleted.includes('a'));
  const revision = await store.remove('a');
  expect((await gone).snapshot).toMatchObject({ revision, epoch: await store.epoch() });
  expect(cache.status().state).toBe('ready');
});

it('equals the store after more changes than a watcher can buffer', async () => {
  cache.start();
  await cache.ready(10_000);
  const done = changeWhere((change) => change.snapshot.records.has('last'));
  // No pause between the writes, so the watcher cannot read: it is cut off and lists again.
  const writes = Array.from({ length: 50 }, (_, i) =>
    store.upsert(sampleRecord(`s${i % 10}`, { display_name: `${i}` })),
  );
  await Promise.all([...writes, store.remove('s3'), store.upsert(sampleRecord('last'))]);
  await done;
  const { revision, records: servers } = await store.list();
  expect(cache.snapshot()?.revision).toBe(revision);
  expect([...(cache.snapshot()?.records.values() ?? [])].sort((a, b) => (a.server_id < b.server_id ? -1 : 1))).toEqual(
    servers,
  );
});

it('keeps the last snapshot after the store is closed', async () => {
  await store.upsert(sampleRecord('a'));
  cache.start();
  await cache.ready(10_000);
  const degraded = new Promise((resolve) => cache.onStatus(resolve));
  await store.close();
  expect(await degraded).toMatchObject({ state: 'degraded', lastError: 'the store was closed' });
  expect(cache.view()?.servers.has('a')).toBe(true);
});
