import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { boundCall, clientAt, listed, questionOf, waiting } from '../../agent/approvals/asking-node.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { builtCommand } from '../../support/built-command.ts';
import { as, runSpear } from '../spear/run-spear.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 120_000 });

afterEach(stopAll);

const hostile = {
  path: '/data/\u202ex\u001b[2J',
  token: 'ghp_0123456789abcdefghijABCDEFGHIJ0123456789',
  content: 'x'.repeat(500),
};

describe('spear approvals', () => {
  it('lists, shows, allows and denies what waits, and tells who was faster [approval.sms.cli] [approval.seen]', async () => {
    const sms = await startTestSms();
    const client = clientAt(sms);
    const answering = client.ask(questionOf({ arguments: hostile }));
    const [request] = await waiting(sms);
    const id = request?.approval_id ?? '';
    const short = id.slice(0, 6);
    const ls = await runSpear(['approvals', 'ls'], as(sms));
    expect(ls.stdout).toMatch(/^ID +AGE +LEFT +TASK +RUN +BY +NODE +SERVER +TOOL +STATUS$/m);
    expect(ls.stdout).toMatch(
      new RegExp(`^${id} +\\d+s +23h +notes +run-1 +bootstrap-node +node-1 +fs +write_file +waiting$`, 'm'),
    );
    const show = await runSpear(['approvals', 'show', short], as(sms));
    expect(show.stdout).toContain('\\u{202e}x\\u001b[2J');
    expect(show.stdout).toContain('looks like a credential');
    expect(show.stdout).not.toMatch(/\p{Cc}(?<!\n)|\p{Cf}|ghp_0123456789/u);
    expect(show.stderr).toContain('--full shows them');
    const full = await runSpear(['approvals', 'show', short, '--full', '--json'], as(sms));
    expect(JSON.parse(full.stdout).arguments).toEqual(hostile);
    const unseen = await runSpear(['approvals', 'allow', short], as(sms));
    expect([unseen.code, unseen.stderr]).toEqual([
      1,
      'spear: nothing was decided: read all arguments, then allow them with --yes\n',
    ]);
    expect(unseen.stdout.replaceAll(/\n {2}│ /g, '')).toContain(hostile.content);
    expect(unseen.stdout).toContain(hostile.token);
    const yes = await runSpear(['approvals', 'allow', short, '--reason', 'fine', '--session', '--yes'], as(sms));
    expect([yes.code, yes.stdout.trimEnd().split('\n').at(-1)]).toEqual([0, `${id}: granted by bootstrap-admin: fine`]);
    expect(yes.stdout).toContain(hostile.token);
    expect((await answering).decision).toBe('allow_session');
    const late = await runSpear(['approvals', 'deny', id], as(sms));
    expect([late.code, late.stderr]).toEqual([
      1,
      'spear: the approval is already granted, allow_session by bootstrap-admin: fine\n',
    ]);
    const denied = await runSpear(['approvals', 'deny', 'zz'], as(sms));
    expect([denied.code, denied.stderr]).toEqual([2, 'spear: "zz" is not an approval id\n']);
    expect((await runSpear(['approvals', 'ls'], as(sms, sms.nodeToken))).code).toBe(4);
    expect(await listed(sms, '?status=granted')).toHaveLength(1);
    const brief = client.ask(questionOf({ arguments: { path: '/data/brief' } }));
    const next = (await waiting(sms))[0]?.approval_id ?? '';
    const seen = await runSpear(['approvals', 'allow', next], as(sms));
    expect([seen.code, seen.stdout.trimEnd().split('\n').at(-1)]).toEqual([0, `${next}: granted by bootstrap-admin`]);
    expect(seen.stdout).toContain('"path": "/data/brief"');
    expect((await brief).decision).toBe('allow_once');
  });

  it('watches: what waits, what comes, and what becomes of it, also after the registry was away [approval.sms.cli]', async () => {
    const sms = await startTestSms();
    const client = clientAt(sms);
    const first = client.ask(questionOf());
    const [request] = await waiting(sms);
    const id = request?.approval_id ?? '';
    const child = spawn(process.execPath, [builtCommand('spear'), 'approvals', 'watch', '--json'], {
      env: { PATH: process.env.PATH, HOME: '/nowhere', ...as(sms) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const next = async () => JSON.parse((await lines.next()).value as string);
    expect(await next()).toMatchObject({ approval_id: id, status: 'waiting' });
    await runSpear(['approvals', 'deny', id, '--reason', 'no'], as(sms));
    expect(await next()).toMatchObject({ approval_id: id, status: 'denied', reason: 'no' });
    expect((await first).reason).toBe('no');
    await sms.restart();
    void client.ask(questionOf({ bound: { ...boundCall, ordinal: '6.1.1' } }));
    expect(await next()).toMatchObject({ ordinal: '6.1.1', status: 'waiting' });
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});
