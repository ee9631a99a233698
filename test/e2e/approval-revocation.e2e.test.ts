import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { sandboxOf, fixture as serverFixture } from '../agent/mcp/client/pool-records.ts';
import { eventually } from '../agent/mcp/client/pool-samples.ts';
import { startTestSms, stopAll, type TestSms } from '../registry/running-sms.ts';
import { Cli, fixture, scratch } from './spear-run.ts';
import { SteeredModel } from './steered-model.ts';

const model = { current: new SteeredModel() };

afterEach(async () => {
  await model.current.stop();
  model.current = new SteeredModel();
  await stopAll();
});

let made = 0;

/** A server whose calls never end, behind an SMS, and a guest that follows it with its model in the test's hands. */
async function running() {
  const sms = await startTestSms();
  const name = join(scratch, `revocation-${++made}`);
  const [trail, audit, task] = [`${name}.trail`, `${name}.jsonl`, `${name}.json`];
  const record = {
    server_id: 'slow',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [serverFixture('mid-call.mjs')], env: { TRAIL: trail } },
    sandbox: { ...sandboxOf(), writable_paths: [scratch] },
    allowed_tools: ['*'],
    budgets: { tool_timeout_ms: 60_000 },
  };
  const { status, text } = await sms.http('POST', '/admin/api/mcp/servers', { json: record });
  expect(status, text).toBe(201);
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["slow"]' };
  writeFileSync(task, JSON.stringify({ name: 'revoked', config, args: ['go'] }));
  const env = { OPENAI_BASE_URL: await model.current.start(), OPENAI_API_KEY: 'test-key', OPENAI_MODEL: 'steered' };
  const flags = ['--task-config', task, '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, '--audit', audit];
  const cli = new Cli([fixture('c/files.wasm'), ...flags], { env }).listen();
  return {
    sms,
    record,
    cli,
    served: () =>
      readFileSync(trail, 'utf8')
        .trim()
        .split('\n')
        .map((line) => line.split(' ')[0]),
    trail: () =>
      readFileSync(audit, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
  };
}

async function narrowed(sms: TestSms, record: object, allowed_tools: string[]): Promise<number> {
  const { status, text, body } = await sms.http('PUT', '/admin/api/mcp/servers/slow', {
    json: { ...record, allowed_tools },
  });
  expect(status, text).toBe(200);
  return Number(body.mod_revision);
}

const lastAnswer = async () => {
  const request = await model.current.next();
  return { request, answer: JSON.parse(request.messages.at(-1)?.content ?? '') };
};

describe('a tool that is revoked in SMS while a guest runs', () => {
  it('is cancelled in flight and refused from then on, and the trail shows the revision that did it', async () => {
    const { sms, record, cli, served, trail } = await running();
    (await model.current.next()).call('slow_hang', {});
    await eventually(() => expect(served()).toEqual(['call']));
    const revision = await narrowed(sms, record, ['pid']);
    const first = await lastAnswer();
    expect(first.answer).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    await eventually(() => expect(served()).toEqual(['call', 'cancelled']));
    first.request.call('slow_hang', {});
    const second = await lastAnswer();
    expect(second.answer).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    second.request.call('slow_pid', {});
    const third = await lastAnswer();
    expect(third.answer).toMatchObject({ content: [{ type: 'text' }] });
    third.request.say('done');
    expect((await cli.finished()).code).toBe(0);
    expect(served()).toEqual(['call', 'cancelled']);
    const finished = trail().filter(({ event }) => event === 'tool_call.finished');
    expect(finished.map(({ tool_name, status, reason, revision }) => [tool_name, status, reason, revision])).toEqual([
      ['hang', 'denied', 'denied_by_registry', revision],
      ['hang', 'denied', 'denied_by_registry', revision],
      ['pid', 'ok', null, revision],
    ]);
  });

  it('is cancelled in flight when its whole server is removed, with that revision', async () => {
    const { sms, cli, served, trail } = await running();
    (await model.current.next()).call('slow_hang', {});
    await eventually(() => expect(served()).toEqual(['call']));
    const { body } = await sms.http('DELETE', '/admin/api/mcp/servers/slow');
    const { request, answer } = await lastAnswer();
    expect(answer).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    await eventually(() => expect(served()).toEqual(['call', 'cancelled']));
    request.say('done');
    expect((await cli.finished()).code).toBe(0);
    const finished = trail().filter(({ event }) => event === 'tool_call.finished');
    expect(finished).toMatchObject([{ status: 'denied', reason: 'unknown_server', revision: Number(body.revision) }]);
  });
});
