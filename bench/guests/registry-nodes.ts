// A process with nodes of a registry, for bench/topics/registry.ts: some with a whole cache, the others only follow the watch.
// Real nodes do not share a process; a hundred caches of ten thousand records in one would measure its garbage collector.
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { isHeartbeat } from '../../src/registry-client/source.ts';

const [address = '', token = '', since = '0', caches = '0', watchers = '0'] = process.argv.slice(2);
const LIST_TIMEOUT_MS = 300_000;

type Seen = [revision: number, atMs: number];
const inCaches: Seen[] = [];
const inWatchers: Seen[] = [];
const now = () => performance.timeOrigin + performance.now();

for (let index = 0; index < Number(caches); index++) {
  const source = createRemoteSource({ address, token });
  const cache = new RegistryCache({ source, timing: { listTimeoutMs: LIST_TIMEOUT_MS } });
  cache.onChange(({ snapshot }) => inCaches.push([snapshot.revision, now()]));
  cache.start();
  await cache.ready(LIST_TIMEOUT_MS);
}
inCaches.length = 0;
await Promise.all(Array.from({ length: Number(watchers) }, follow));
process.send?.('ready');

process.on('message', () => {
  const megabytes = Math.round(process.memoryUsage.rss() / 1024 / 1024);
  process.send?.({ inCaches, inWatchers, megabytes }, undefined, {}, () => process.exit());
});

/** Resolves when the watch has begun. */
async function follow(): Promise<void> {
  const items = createRemoteSource({ address, token }).watch(Number(since), new AbortController().signal);
  const iterator = items[Symbol.asyncIterator]();
  await iterator.next();
  void (async () => {
    for (let step = await iterator.next(); step.done !== true; step = await iterator.next()) {
      if (!isHeartbeat(step.value)) inWatchers.push([step.value.revision, now()]);
    }
  })();
}
