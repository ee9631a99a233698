import { afterEach, expect, it } from 'vitest';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { KindCache } from '../../src/registry-client/kind-cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { stopKind } from '../../src/server/records/stop-kind.ts';
import { onStop, startTestSms, stopAll } from '../registry/running-sms.ts';
import { FakeOldSms } from './fake-old-sms.ts';

afterEach(stopAll);

it('a registry of an earlier version has no stops, and its servers are used', async () => {
  const old = await new FakeOldSms().start();
  old.upsert({ server_id: 'fs', transport: 'MCP_TRANSPORT_STDIO', stdio: { command: 'mcp-fs' }, allowed_tools: ['*'] });
  const source = createRemoteSource({ address: old.address });
  onStop(() => source.close());
  const cache = new RegistryCache({ source, stops: new KindCache({ kind: stopKind, source: source.stops }) });
  onStop(() => cache.close());
  cache.start();
  expect(await cache.ready(30_000)).toBe(true);
  expect([...(cache.view()?.servers.keys() ?? [])]).toEqual(['fs']);
  expect([cache.view()?.stops?.size, cache.view()?.stale, cache.stops?.status().state]).toEqual([0, false, 'ready']);
});

it('a node of one namespace sees its own and shared stops, and no others [stop.permission]', async () => {
  const sms = await startTestSms();
  const json = { name: 'node-a', roles: ['node'], namespace: 'team-a' };
  const { body } = await sms.http('POST', '/admin/api/tokens', { json });
  for (const target of [
    { scope: 'namespace', name: 'team-a' },
    { scope: 'namespace', name: 'team-b' },
    { scope: 'task', name: 'team-b/report' },
    { scope: 'server', name: 'fs' },
  ]) {
    await sms.http('POST', '/admin/api/stops', { json: { ...target, reason: 'incident 12' } });
  }
  const source = sms.source(String(body.token));
  const stops = new KindCache({ kind: stopKind, source: source.stops });
  onStop(() => stops.close());
  stops.start();
  expect(await stops.ready(30_000)).toBe(true);
  const seen = () =>
    [...(stops.snapshot()?.records.values() ?? [])].map(({ scope, name }) => `${scope} ${name}`).sort();
  expect(seen()).toEqual(['namespace team-a', 'server fs']);
  const changed = new Promise<void>((resolve) => {
    const off = stops.onChange(() => {
      off();
      resolve();
    });
  });
  await sms.http('POST', '/admin/api/stops', { json: { scope: 'task', name: 'team-b/pay', reason: 'x' } });
  await sms.http('POST', '/admin/api/stops', { json: { scope: 'all', reason: 'x' } });
  await changed;
  expect(seen()).toEqual(['all ', 'namespace team-a', 'server fs']);
});
