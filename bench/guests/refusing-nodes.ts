// A process with caches of nodes that follow a registry, for bench/topics/revocation.ts: when each of them refuses a tool.
import { decideCall } from '../../src/agent/policy/walk.ts';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { disabledTask } from '../../src/runtime/port/policy-layers.ts';

const [address = '', token = '', server = '', tool = '', nodes = '0'] = process.argv.slice(2);
const READY_MS = 60_000;
const task = { ...disabledTask, enabled: true, defaultServerIds: [server], allowedServerIds: [server] };

const refused: [revision: number, atMs: number][] = [];
const now = () => performance.timeOrigin + performance.now();

for (let index = 0; index < Number(nodes); index++) {
  const cache = new RegistryCache({ source: createRemoteSource({ address, token }) });
  // As calls in flight are told, and asked of what every call is asked.
  cache.onPolicyChange(() => {
    const { allowed } = decideCall(cache.view(), task, null, server, tool);
    if (!allowed) refused.push([cache.snapshot()?.revision ?? 0, now()]);
  });
  cache.start();
  if (!(await cache.ready(READY_MS))) throw new Error('a cache did not become ready');
}
process.send?.('ready');
process.on('message', () => process.send?.(refused, undefined, {}, () => process.exit()));
