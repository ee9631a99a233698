import { readdirSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SpearletOptions } from '../../src/node/node.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { startTestSms, stopAll, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';
import { eventually } from '../support/eventually.ts';
import { ledgerRecord } from '../torture/node/node-life.ts';
import { startNode as start } from './started-spearlet.ts';

// A node that starts before its registry: everything is real but the process boundary and the model.

beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', temporaryDirectory());
});
afterEach(async () => {
  await stopAll();
  vi.unstubAllEnvs();
});

/** The address of a registry that is down; `restart` starts it there. */
async function stoppedSms(prepare: (sms: TestSms) => Promise<unknown> = async () => {}): Promise<TestSms> {
  const sms = await startTestSms();
  await prepare(sms);
  await sms.sms.close();
  return sms;
}

const startNode = (sms: TestSms, options: Partial<SpearletOptions> = {}) =>
  start({ registry: { directory: undefined, sms: { address: sms.sms.grpc, token: sms.nodeToken } }, ...options });

const idOf = ({ text }: { readonly text: string }) => (JSON.parse(text) as RunRecord).id;

describe('a node whose registry has not sent a snapshot', () => {
  it('answers /healthz, is not ready, and gives the reason [node.ready]', async () => {
    const node = await startNode(await stoppedSms());
    expect((await node.ask('/healthz')).status).toBe(200);
    const { status, text } = await node.ask('/readyz');
    expect(status).toBe(503);
    expect(text).toContain('no snapshot of the registry yet');
  });

  it('runs tasks without MCP and starts others with the first snapshot, uncounted [node.ready]', async () => {
    const sms = await stoppedSms(async ({ http }) => {
      const { status, text } = await http('POST', '/admin/api/mcp/servers', { json: ledgerRecord('/dev/null') });
      expect(status, text).toBe(201);
    });
    const node = await startNode(sms);
    const agent = idOf(await node.submit('agent'));
    const hello = idOf(await node.submit('hello'));
    await eventually(async () => (await node.run(hello)).status === 'succeeded', 'the task without MCP');
    expect(await node.run(agent)).toMatchObject({ status: 'queued', attempts: 0 });

    await sms.restart();
    await eventually(async () => (await node.run(agent)).status === 'succeeded', 'the task with MCP');
    expect(await node.run(agent)).toMatchObject({ attempts: 1, cost: { tool_calls: 3 }, degraded: null });
    expect((await node.ask('/readyz')).status).toBe(200);
  });

  it('answers 503 for a task that only the registry may know, and 404 once its tasks are known [node.ready]', async () => {
    const sms = await stoppedSms();
    const node = await startNode(sms, { taskDir: null });
    const unknown = await node.submit('hello');
    expect([unknown.status, unknown.headers.get('retry-after')]).toEqual([503, '5']);
    expect(unknown.text).toContain('registry-unavailable');

    await sms.restart();
    await eventually(async () => (await node.ask('/readyz')).status === 200, 'the node to be ready');
    await eventually(async () => (await node.submit('hello')).status === 404, 'the list of tasks');
  });

  it('is ready with the snapshot that an earlier run saved [node.ready]', async () => {
    const sms = await startTestSms();
    const first = await startNode(sms);
    await eventually(async () => (await first.ask('/readyz')).status === 200, 'the first snapshot');
    const state = process.env.XDG_STATE_HOME as string;
    const isSaved = async () => readdirSync(state, { recursive: true }).some((name) => String(name).endsWith('.jsonl'));
    await eventually(isSaved, 'the saved snapshot');
    await sms.sms.close();
    const second = await startNode(sms);
    expect((await second.ask('/readyz')).status).toBe(200);
  });
});
