import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { decide, listed, waiting } from '../agent/approvals/asking-node.ts';
import { sandboxOf, fixture as serverFixture } from '../agent/mcp/client/pool-records.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { Cli, fixture, scratch } from './spear-run.ts';

afterEach(stopAll);

let made = 0;

const call = (label: string) => ({ id: label, name: 'count_work', arguments: { label } });
const script = {
  turns: [
    { when: { role: 'user' }, reply: { tool_calls: [call('a')] } },
    { when: { tool_call_id: 'a' }, reply: { content: 'all done' } },
  ],
};

/** A real registry, a real server whose calls need somebody's yes, and a run that asks the registry's people. */
async function running() {
  const sms = await startTestSms();
  const name = join(scratch, `approvals-${++made}`);
  const [trail, audit, task, journal, turns] = ['trail', 'jsonl', 'json', 'journal', 'script'].map(
    (end) => `${name}.${end}`,
  ) as [string, string, string, string, string];
  const record = {
    server_id: 'count',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [serverFixture('counting.mjs')], env: { TRAIL: trail } },
    sandbox: { ...sandboxOf(), writable_paths: [scratch] },
    allowed_tools: ['*'],
    approval_policy: { default: 'always' },
  };
  const { status, text } = await sms.http('POST', '/admin/api/mcp/servers', { json: record });
  expect(status, text).toBe(201);
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["count"]' };
  writeFileSync(task, JSON.stringify({ name: 'counting', config, args: ['go'] }));
  writeFileSync(turns, JSON.stringify(script));
  const registry = ['--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, '--audit', audit];
  const flags = ['--task-config', task, '--script', turns, '--approve', 'sms', '--journal', journal, ...registry];
  return {
    sms,
    start: () => new Cli([fixture('c/files.wasm'), ...flags]).listen(),
    resume: () => new Cli(['--resume', journal, '--sms-token', sms.nodeToken, '--audit', audit]).listen(),
    done: () => (existsSync(trail) ? readFileSync(trail, 'utf8').trim().split('\n') : []),
    trail: (event: string) =>
      readFileSync(audit, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
        .filter((line) => line.event === event),
  };
}

describe('spear-run --approve sms', () => {
  it('makes the call when somebody allows it in the registry, and says who did [approval.sms]', async () => {
    const { sms, start, done, trail } = await running();
    const cli = start();
    const [request] = await waiting(sms);
    expect(request).toMatchObject({
      task: 'counting',
      server_id: 'count',
      tool_name: 'work',
      arguments: { label: 'a' },
    });
    expect(done()).toEqual([]);
    await decide(sms, request?.approval_id ?? '', 'allow_once', { reason: 'go on' });
    expect(await cli.finished()).toMatchObject({ code: 0 });
    expect(done()).toEqual(['a']);
    expect(trail('approval.decided')).toMatchObject([{ decision: 'allow_once', decided_by: 'sms: bootstrap-admin' }]);
    expect(await listed(sms)).toMatchObject([{ status: 'used' }]);
  });

  it('is killed while it waits, resumed, and finds its request: one request, one effect [approval.sms.resume]', async () => {
    const { sms, start, resume, done } = await running();
    const first = start();
    const [request] = await waiting(sms);
    first.child.kill('SIGKILL');
    await first.finished();
    const second = resume();
    await second.says(
      'stderr',
      `is waiting for an approval in the registry: spear approvals show ${request?.approval_id}`,
    );
    await decide(sms, request?.approval_id ?? '', 'allow_once');
    expect(await second.finished()).toMatchObject({ code: 0 });
    expect(done()).toEqual(['a']);
    expect(await listed(sms)).toMatchObject([{ approval_id: request?.approval_id, status: 'used' }]);
  });

  it('interrupted with a journal leaves its request waiting; denied, it is told to the model [approval.sms.resume]', async () => {
    const { sms, start, resume, done, trail } = await running();
    const first = start();
    const [request] = await waiting(sms);
    first.child.kill('SIGTERM');
    await first.finished();
    expect(await listed(sms)).toMatchObject([{ status: 'waiting' }]);
    await decide(sms, request?.approval_id ?? '', 'deny', { reason: 'not today' });
    expect(await resume().finished()).toMatchObject({ code: 0 });
    expect(done()).toEqual([]);
    expect(trail('tool_call.finished').at(-1)).toMatchObject({ status: 'denied', reason: 'approval_denied' });
  });
});
