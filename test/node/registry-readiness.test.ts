import { afterEach, expect, it } from 'vitest';
import { RegistryReadiness } from '../../src/node/registry-readiness.ts';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { KindCache } from '../../src/registry-client/kind-cache.ts';
import { inProcessSource } from '../../src/registry-client/source.ts';
import type { StopRecord } from '../../src/server/records/stop.ts';
import { stopKind } from '../../src/server/records/stop-kind.ts';
import { createMemoryStore, createMemoryStoreOf } from '../../src/server/store/local-store.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const task = { config: { 'mcp.enabled': true }, namespace: 'default' };
const tasks = { store: { list: () => [], find: () => null, revisions: () => [task] }, notLoaded: () => null };

it('a node waits for the stops of the registry, too: without them policy allows no tool [node.ready]', async () => {
  const stopStore = createMemoryStoreOf<StopRecord>(stopKind);
  const answer = Promise.withResolvers<void>();
  const source = inProcessSource(stopStore);
  const late: typeof source = {
    ...source,
    canWatchRecords: source.canWatchRecords,
    list: async (signal) => {
      await answer.promise;
      return source.list(signal);
    },
    watch: (since, signal) => source.watch(since, signal),
  };
  const servers = createMemoryStore();
  const cache = new RegistryCache({
    source: inProcessSource(servers),
    stops: new KindCache({ kind: stopKind, source: late }),
  });
  closers.push(() => cache.close());
  cache.start();
  await expect.poll(() => cache.snapshot()).not.toBeNull();
  const readiness = new RegistryReadiness({ cache }, tasks as never);
  expect(readiness.problem()).toContain('no snapshot of the registry yet');
  expect(readiness.blocks(task)).toContain('no snapshot of the registry yet');
  expect(readiness.mayStart({ namespace: 'default', name: 'agent' })).toBe(false);

  answer.resolve();
  await expect.poll(() => cache.view()).not.toBeNull();
  expect([readiness.problem(), readiness.blocks(task)]).toEqual([null, null]);
  expect(readiness.mayStart({ namespace: 'default', name: 'agent' })).toBe(true);
});

it('a node whose task names a profile says that it waits for the profiles [node.ready]', () => {
  const profiles = { snapshot: (): object | null => null };
  const cache = { view: () => ({}), status: () => ({ lastError: null }), stops: null, profiles };
  const live = { ...task, config: { ...task.config, 'mcp.profile': 'research' } };
  const store = { ...tasks.store, list: () => [{ live: task }, { live }] };
  const readiness = new RegistryReadiness({ cache } as never, { ...tasks, store } as never);
  expect(readiness.blocks(task)).toBeNull();
  expect(readiness.problem()).toContain('no profiles have been received');
  profiles.snapshot = () => ({});
  expect(readiness.problem()).toBeNull();
});
