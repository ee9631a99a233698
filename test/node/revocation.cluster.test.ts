import { afterEach, expect, it } from 'vitest';
import { type CallingNode, openCallingNode } from '../../bench/guests/calling-node.ts';
import { decideCall } from '../../src/agent/policy/walk.ts';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { disabledTask } from '../../src/runtime/port/policy-layers.ts';
import { onStop, startTestSms, stopAll, type TestSms } from '../registry/running-sms.ts';
import { etcdConfig } from '../server/store/etcd/etcd-config.ts';
import { useEtcd } from '../support/engines/use-engine.ts';
import { until } from '../support/until.ts';

const etcd = useEtcd({ members: 1 });
const NODES = 20;
const TRIES = 3;
const WITHIN_MS = 250;
const task = { ...disabledTask, enabled: true, defaultServerIds: ['slow'], allowedServerIds: ['slow'] };

afterEach(stopAll);

async function callingNode(sms: TestSms): Promise<CallingNode> {
  const upsert = async (record: { readonly server_id: string }) => {
    const { status, text, body } = await sms.http('PUT', `/admin/api/mcp/servers/${record.server_id}`, {
      json: { ...record, created_at_ms: undefined, updated_at_ms: undefined, mod_revision: undefined },
    });
    expect([200, 201], text).toContain(status);
    return Number(body.mod_revision);
  };
  const node = await openCallingNode({ grpc: sms.sms.grpc, nodeToken: sms.nodeToken, upsert });
  onStop(() => node.close());
  return node;
}

/** Whether each of many nodes would make the call now. */
async function watching(sms: TestSms): Promise<readonly (() => boolean)[]> {
  const caches = Array.from({ length: NODES }, () => new RegistryCache({ source: sms.source() }));
  for (const cache of caches) {
    onStop(() => cache.close());
    cache.start();
    expect(await cache.ready(20_000)).toBe(true);
  }
  return caches.map((cache) => () => decideCall(cache.view(), task, null, 'slow', 'work').allowed);
}

it.each(['SQLite', 'etcd'] as const)(
  'a tool that is removed from a registry on %s is refused on every node, and its call in flight ends [sms.node.revokes]',
  async (store) => {
    const sms = await startTestSms(store === 'etcd' ? { etcd: etcdConfig(etcd().members) } : {});
    const node = await callingNode(sms);
    const nodes = await watching(sms);
    const took: number[] = [];
    for (let n = 0; n < TRIES; n++) {
      const { ended } = await node.call();
      await until(() => nodes.every((allows) => allows()), 'nodes that would call');
      const began = performance.now();
      await node.narrow();
      await until(() => !nodes.some((allows) => allows()), 'nodes that refuse');
      took.push(performance.now() - began);
      expect(await ended).toContain('mcp_policy_denied');
    }
    // The best of them: the rest is the machine's.
    expect(Math.min(...took)).toBeLessThan(WITHIN_MS);
  },
  90_000,
);
