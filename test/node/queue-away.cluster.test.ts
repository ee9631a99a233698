import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadRegistryConfig } from '../../src/config/registry/registry-config.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { startTestSms, stopAll, temporaryDirectory } from '../registry/running-sms.ts';
import { clearStreams } from '../server/queue/nats-clusters.ts';
import { useNats } from '../support/engines/use-engine.ts';
import { type RunningNode, runningNode } from './running-node.ts';

const SUBMIT_MS = 300;
const HELLO = '/v1/namespaces/default/tasks/hello/runs';
const RUNS = '/v1/namespaces/default/runs';
const cluster = useNats({ members: 1 });
const member = () => {
  const [only] = cluster().members;
  if (only === undefined) throw new Error('the cluster has no member');
  return only;
};

const failures = {
  'is killed': { stop: () => member().kill(), start: () => member().start() },
  hangs: { stop: () => member().pause(), start: () => member().resume() },
} as const;

beforeEach(() => clearStreams(cluster()));
afterEach(async () => {
  member().resume();
  await member().start();
  await stopAll();
});

const submit = (node: RunningNode, key?: string) =>
  node.ask('POST', HELLO, { body: 'x', headers: key === undefined ? {} : { 'idempotency-key': key } });
const status = async (node: RunningNode, path: string) => (await node.ask('GET', path)).status;
const listed = async (node: RunningNode) =>
  (JSON.parse((await node.ask('GET', RUNS)).text) as { readonly runs: readonly RunRecord[] }).runs;

describe('a node whose queue in NATS does not answer', () => {
  it.each(Object.entries(failures))(
    'is alive and not ready, rejects submissions and says what is safe, and recovers: the server %s [node.queue-away]',
    async (_, { stop, start }) => {
      const config = `[nats]\nsubmit_timeout_ms = ${SUBMIT_MS}\n`;
      const node = await runningNode(config, { queue: `nats://${member().address}` });
      expect(await status(node, '/readyz')).toBe(200);
      await stop();

      // Before the node has noticed, and after.
      const rejected = await submit(node, 'once');
      await expect.poll(() => status(node, '/readyz')).toBe(503);
      const ready = await node.ask('GET', '/readyz');
      expect(JSON.parse(ready.text)).toEqual({
        status: 'not ready',
        problem: expect.stringContaining('the run queue in NATS does not work: '),
      });
      expect(await status(node, '/healthz')).toBe(200);
      const again = await submit(node, 'once');
      const run = rejected.headers.get('spear-run') ?? '';
      expect(run).toMatch(/^run-[0-9a-f]{32}$/);
      for (const answer of [rejected, again]) {
        expect([answer.status, answer.headers.get('spear-run')]).toEqual([503, run]);
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
        const { type, detail } = JSON.parse(answer.text) as { readonly type: string; readonly detail: string };
        expect(type).toContain('queue-unavailable');
        expect(detail).toContain(`the run ${run} may have been stored`);
        expect(detail).toContain('submit again with the same Idempotency-Key, which is safe: it is the same run');
      }
      const keyless = await submit(node);
      expect([keyless.status, keyless.headers.get('spear-run')]).toEqual([503, expect.stringMatching(/^run-/)]);
      expect(keyless.text).toContain('look for this run before you submit it again');

      await start();
      await expect.poll(() => status(node, '/readyz')).toBe(200);
      await expect.poll(async () => (await submit(node, 'once')).status).toBe(202);
      expect((await submit(node, 'once')).headers.get('spear-run')).toBe(run);
      await expect.poll(async () => (await node.ask('GET', `${RUNS}/${run}/result`)).text).toBe('hello from C\n');
      // One run, however often its key was submitted; the queue may have stored the run without a key, or not.
      const others = (await listed(node)).filter(({ id }) => id !== keyless.headers.get('spear-run'));
      expect(others.map(({ id }) => id)).toEqual([run]);
    },
  );
});

describe('a registry whose queue in NATS does not answer', () => {
  it('stays ready for nodes, and its readiness has the state of the queue [node.queue-away]', async () => {
    const flags = { queue: `nats://${member().address}` };
    const { queue } = loadRegistryConfig({ flags, env: { HOME: temporaryDirectory() } });
    const sms = await startTestSms({ queue });
    const ready = async () => {
      const { status: code, body } = await sms.http('GET', '/readyz', { token: null });
      return { code, ...body };
    };
    expect(await ready()).toEqual({ code: 200, status: 'serving', queue: 'available' });
    await member().kill();
    await expect.poll(ready).toEqual({ code: 200, status: 'serving', queue: 'unavailable' });
    expect((await sms.http('GET', '/healthz', { token: null })).status).toBe(200);
    await member().start();
    await expect.poll(ready).toEqual({ code: 200, status: 'serving', queue: 'available' });
  });
});
