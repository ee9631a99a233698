// A process with many nodes of a registry, for bench/sms.ts. Each has a connection and a cache of its own.
import { RegistryCache } from '../src/registry/cache.ts';
import { createRemoteSource, type RemoteSource } from '../src/registry/remote-source.ts';

const [address = '', token = '', count = '0'] = process.argv.slice(2);
const LIST_TIMEOUT_MS = 300_000;

/** Revision and the time at which a cache had it, one entry for each cache. */
const seen: [revision: number, atMs: number][] = [];

// One after another: real nodes do not share a processor, and a hundred first lists at once would measure just that.
const nodes: { readonly cache: RegistryCache; readonly source: RemoteSource }[] = [];
while (nodes.length < Number(count)) {
  const source = createRemoteSource({ address, token });
  const cache = new RegistryCache({ source, timing: { listTimeoutMs: LIST_TIMEOUT_MS } });
  cache.onChange(({ snapshot }) => seen.push([snapshot.revision, performance.timeOrigin + performance.now()]));
  cache.start();
  await cache.ready(LIST_TIMEOUT_MS);
  nodes.push({ cache, source }); if (process.env.DBG) console.error(process.pid, nodes.length, (performance.now()/1000).toFixed(1), cache.status().state, cache.status().lastError);
}
seen.length = 0;
process.send?.('ready');

process.on('message', async () => {
  process.send?.({ seen, megabytes: Math.round(process.memoryUsage.rss() / 1024 / 1024) });
  for (const { cache, source } of nodes) {
    await cache.close();
    source.close();
  }
  process.disconnect?.();
});
