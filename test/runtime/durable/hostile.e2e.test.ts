import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { Cli, fixture, projectNode, root, scratch, spearRun } from '../../e2e/spear-run.ts';
import { builtCommand } from '../../support/built-command.ts';
import { BIG, BIG_BYTES, call, drop, forever, guestModule, number } from '../../torture/guests/guest-module.ts';

const path = (name: string) => join(scratch, name);
const hello = fixture('c/hello.wasm');

const spear = (...args: string[]) =>
  spawnSync(projectNode, [builtCommand('spear'), ...args], { encoding: 'utf8', cwd: root, timeout: 30_000 });

describe('the writer of a journal', () => {
  it('is exclusive: a running run cannot be resumed, under any name of its journal [journal.one-writer]', async () => {
    const file = path('alone.journal');
    symlinkSync(file, path('link.journal'));
    const first = new Cli([fixture('c/test/echo-stdin.wasm'), '--journal', file]).listen();
    first.child.stdin.write('one\n');
    await first.says('stdout', 'one');
    for (const name of [file, path('link.journal')]) {
      const second = await spearRun(['--resume', name]);
      expect(second).toMatchObject({
        code: 125,
        stdout: '',
        stderr: `spear-run: ${name}: another process is writing this journal\n`,
      });
    }
    // A stopped process still holds the lock; it continues afterwards.
    first.child.kill('SIGSTOP');
    expect((await spearRun(['--resume', file])).stderr).toContain('another process is writing this journal');
    first.child.kill('SIGCONT');
    first.child.stdin.end('two\n');
    expect(await first.finished()).toMatchObject({ code: 0, stdout: 'one\ntwo\n' });
    expect(existsSync(`${file}.lock`)).toBe(false);
    expect(spear('replay', file)).toMatchObject({ status: 0, stdout: 'one\ntwo\n' });
  });

  it('that was killed leaves a lock file that blocks no later writer [journal.one-writer]', async () => {
    const file = path('killed.journal');
    const first = new Cli([fixture('c/test/echo-stdin.wasm'), '--journal', file]).listen();
    first.child.stdin.write('one\n');
    await first.says('stdout', 'one');
    first.child.kill('SIGKILL');
    await first.finished();
    expect(existsSync(`${file}.lock`)).toBe(true);
    const both = [1, 2].map(() => {
      const cli = new Cli(['--resume', file]).listen();
      cli.child.stdin.write('two\n');
      return cli;
    });
    // Of two concurrent resumes one continues, and the other is refused.
    const loser = await Promise.race(both.map((cli) => cli.finished().then(() => cli)));
    const winner = both.find((cli) => cli !== loser);
    expect((await loser.finished()).stderr).toContain('another process is writing this journal');
    await winner?.says('stdout', 'two');
    winner?.child.stdin.end();
    expect(await winner?.finished()).toMatchObject({ code: 0, stdout: 'two\n' });
    expect(spear('replay', file)).toMatchObject({ status: 0, stdout: 'one\ntwo\n' });
  });
});

describe('a journal', () => {
  it('is a regular file: nothing waits for a pipe, and a link is not written through', async () => {
    spawnSync('mkfifo', [path('pipe')]);
    mkdirSync(path('folder'));
    symlinkSync(path('nowhere'), path('dangling'));
    for (const name of ['pipe', 'folder', '/dev/zero']) {
      const file = name.startsWith('/') ? name : path(name);
      expect((await spearRun(['--resume', file])).stderr).toBe(`spear-run: ${file}: not a regular file\n`);
      expect(spear('journal', 'verify', file).stdout).toBe(`${file}: not a regular file\n`);
    }
    for (const name of ['pipe', 'folder', 'dangling']) {
      const { code, stderr } = await spearRun([hello, '--journal', path(name)]);
      expect([code, stderr]).toEqual([125, expect.stringContaining('the journal exists already')]);
    }
    expect(existsSync(path('nowhere'))).toBe(false);
  });

  it('on a full disk ends the run, stays intact, and continues when there is space', async () => {
    const file = path('full.journal');
    const input = 'x'.repeat(300_000);
    const bounded = ['--fsize=100000', projectNode, builtCommand('spear-run')];
    const run = spawnSync('prlimit', [...bounded, fixture('c/test/echo-stdin.wasm'), '--journal', file], {
      encoding: 'utf8',
      input,
      cwd: root,
    });
    expect(run.status).toBe(125);
    expect(run.stderr).toContain('full.journal: cannot write the journal (EFBIG)');
    expect(readJournal(file)).toMatchObject({ tornBytes: 0 });
    expect(readJournal(file).records.at(-1)).toMatchObject({ t: 'end', reason: 'journal' });
    // Everything that was printed stands in it, and nothing else does.
    expect(spear('replay', file).stdout).toBe(run.stdout);
    const resumed = await spearRun(['--resume', file], { input: 'the rest' });
    // What was read and not printed comes first.
    expect([resumed.code, resumed.stdout.replace(/^x*/, '')]).toEqual([0, 'the rest']);
    expect(spear('replay', file)).toMatchObject({ status: 0, stdout: run.stdout + resumed.stdout });
  });

  it.each([
    ['clocks', 'thread', drop(call('time_now_ms'))],
    ['dice', 'thread', drop(call('random_get', number(BIG), number(BIG_BYTES)))],
    ['clocks', 'shared', drop(call('time_now_ms'))],
    ['dice', 'shared', drop(call('random_get', number(BIG), number(BIG_BYTES)))],
  ])('of a guest that asks %s for ever ends it at limits.journal_bytes (%s)', async (name, isolation, body) => {
    const wasm = path(`${name}-${isolation}.wasm`);
    writeFileSync(wasm, await guestModule({ run: forever(body) }));
    const file = path(`${name}-${isolation}.journal`);
    const bounded = ['--limit', 'journal_bytes=2000000', '--isolation', isolation];
    const { code, stderr } = await spearRun([wasm, '--journal', file, ...bounded]);
    expect([code, stderr]).toEqual([
      125,
      `spear-run: ${file}: the journal would exceed limits.journal_bytes = 2000000\n`,
    ]);
    expect(readFileSync(file).byteLength).toBeLessThan(2_001_000);
    // The end of a replay is that of the run.
    expect(spear('replay', file)).toMatchObject({ status: 125, stdout: '' });
  });

  it('whose clock was set back has no record before its beginning', async () => {
    const file = path('clock.journal');
    const shift = path('shift');
    writeFileSync(shift, '0');
    const clock = fixture('../test/torture/registry/shifted-clock.ts');
    const cli = new Cli([fixture('c/test/echo-stdin.wasm'), '--journal', file], {
      env: { TORTURE_CLOCK: shift },
      nodeArgs: ['--import', clock],
    }).listen();
    cli.child.stdin.write('one\n');
    await cli.says('stdout', 'one');
    writeFileSync(shift, '-86400000');
    cli.child.stdin.end('two\n');
    expect(await cli.finished()).toMatchObject({ code: 0, stdout: 'one\ntwo\n' });
    expect(readJournal(file).records.every(({ ms }) => ms >= 0)).toBe(true);
    expect(spear('replay', file)).toMatchObject({ status: 0, stdout: 'one\ntwo\n' });
  });
});

it('a run whose server was removed resumes: results stay recorded, and the model receives errors for the other calls', async () => {
  const calls = path('calls');
  const records = path('mcp.d');
  mkdirSync(records);
  const stdio = { command: process.execPath, args: [fixture('mcp-servers/counting.mjs')], env: { TRAIL: calls } };
  const record = { server_id: 'count', transport: 'stdio', stdio, allowed_tools: ['*'] };
  writeFileSync(join(records, 'count.json'), JSON.stringify(record));
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["count"]' };
  writeFileSync(path('task.json'), JSON.stringify({ name: 'r', config }));
  const turn = (when: object, id: string) => ({
    when,
    reply: { tool_calls: [{ id, name: 'count_work', arguments: { label: id } }] },
  });
  const turns = [
    turn({ role: 'user' }, 'a'),
    turn({ tool_call_id: 'a' }, 'b'),
    { when: { tool_call_id: 'b' }, reply: { content: 'done' } },
  ];
  writeFileSync(path('script.json'), JSON.stringify({ turns }));
  const args = ['--task-config', path('task.json'), '--mcp-dir', records, '--script', path('script.json')];
  const file = path('gone.journal');
  const whole = await spearRun([fixture('c/files.wasm'), ...args, '--approve', 'deny', '--journal', file]);
  expect(whole).toMatchObject({ code: 0 });
  expect(readFileSync(calls, 'utf8')).toBe('a\nb\n');
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.slice(0, text.indexOf('{"t":"tool.started"', text.indexOf('"t":"tool.finished"'))));
  rmSync(join(records, 'count.json'));
  rmSync(calls);
  const { code, stdout } = await spearRun(['--resume', file]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'done\n' }); // the question was printed before
  expect(existsSync(calls)).toBe(false);
});
