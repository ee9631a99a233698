import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Cli, fixture, spearRun } from './spear-run.ts';

const hello = fixture('c/hello.wasm');
const loud = fixture('c/test/loud.wasm');
const echo = fixture('c/test/echo-stdin.wasm');
const unbounded = ['--limit', 'log_bytes_per_second=1073741824'];

describe('what a guest logs', () => {
  const said = 'logged 1, refused 0\n';
  const line = 'line 0 of a guest that logs in a loop\n';

  it.each([
    ['trace', 0, '', ''],
    ['debug', 1, '', ''],
    ['info', 2, line, ''],
    ['warn', 3, '', `warn: ${line}`],
    ['error', 4, '', `error: ${line}`],
    ['anything else', 9, line, ''],
  ])('at %s goes where it belongs', async (_, level, stdout, stderr) => {
    expect(await spearRun([loud, '--', '1', String(level)])).toMatchObject({ code: 0, stdout: stdout + said, stderr });
  });

  it.each([
    ['trace', 0],
    ['debug', 1],
  ])('at %s shows with --verbose, which also counts the hostcalls on stderr', async (name, level) => {
    for (const flag of ['-v', '--verbose']) {
      expect(await spearRun([loud, flag, '--', '1', String(level)])).toMatchObject({
        code: 0,
        stdout: `${name}: ${line}${said}`,
        stderr: 'spear-run: hostcalls {"log":1}\n',
      });
    }
  });

  it('beyond the rate is dropped, said once and counted', async () => {
    const { code, stdout, stderr } = await spearRun([loud, '--limit', 'log_bytes_per_second=1024', '--', '1000']);
    expect(code).toBe(0);
    expect(stdout).toContain('logged 1000, refused 0\n');
    const kept = stdout.split('\n').filter((text) => text.startsWith('line ')).length;
    expect(kept).toBeLessThan(1000);
    expect(stderr).toBe(
      'spear-run: the guest logs more than limits.log_bytes_per_second = 1024: lines are dropped\n' +
        `spear-run: ${1000 - kept} log lines were dropped\n`,
    );
  });
});

describe('--json', () => {
  it('prints one object with the documented fields, and the guest’s output on stderr [cli.json]', async () => {
    const args = [fixture('c/sum.wasm'), '--json', '--script', fixture('scripts/sum.json')];
    const { code, stdout, stderr } = await spearRun(args);
    expect(code).toBe(0);
    expect(stderr).toBe('tool sum {"a":2,"b":40} -> {"sum":42}\n2 + 40 = 42\n');
    expect(stdout).toMatch(/^\{.*\}\n$/);
    expect(JSON.parse(stdout)).toEqual({
      exit_code: 0,
      reason: 'exit',
      guest_exit_code: 0,
      message: null,
      stack: [],
      isolation: 'thread',
      isolation_reason: null,
      durations: { load_ms: expect.any(Number), run_ms: expect.any(Number), total_ms: expect.any(Number) },
      hostcalls: expect.objectContaining({ cchat_create: 1, cchat_send: 1, cchat_write_fn: 1, cchat_write_msg: 1 }),
      model_calls: 2,
      tool_calls: 1,
      tokens: { completion_tokens: 0, prompt_tokens: 0, total_tokens: 0 },
      dropped_log_lines: 0,
    });
  });

  it('counts every round of a guest that answers its tools itself once [cli.json]', async () => {
    const args = [fixture('c/handback.wasm'), '--json', '--script', fixture('scripts/handback.json')];
    const { hostcalls, ...counts } = JSON.parse((await spearRun(args)).stdout);
    expect(hostcalls).toMatchObject({ cchat_send: 3, cchat_write_tool_result: 3 });
    expect(counts).toMatchObject({ model_calls: 3, tool_calls: 3 });
  });

  it.each<[string, string[], object]>([
    [
      'the guest’s code',
      [fixture('c/test/exit.wasm'), '--', '9'],
      { exit_code: 9, reason: 'exit', guest_exit_code: 9 },
    ],
    [
      'the deadline',
      [fixture('c/test/spin.wasm'), '--limit', 'timeout_ms=300'],
      { exit_code: 124, reason: 'deadline', guest_exit_code: null },
    ],
    ['a trap', [fixture('c/test/trap.wasm')], { exit_code: 134, reason: 'trap', message: 'unreachable' }],
    ['a module that is not there', ['nowhere.wasm'], { exit_code: 125, reason: 'module', message: 'no such file' }],
    [
      'a wrong flag value',
      [hello, '--backend', 'x'],
      { exit_code: 125, reason: 'usage', message: expect.stringContaining('--backend') },
    ],
  ])('tells %s [cli.json]', async (_, [wasm = '', ...rest], expected) => {
    const { code, stdout } = await spearRun([wasm, '--json', ...rest]);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject(expected);
    expect(code).toBe(result.exit_code);
  });

  it('has the frames of a trap, innermost first [cli.json]', async () => {
    const { stdout } = await spearRun([fixture('c/test/trap.wasm'), '--json']);
    const { stack } = JSON.parse(stdout);
    expect(stack[0]).toContain('reach_the_unreachable');
    expect(stack[1]).toContain('walk_to_the_trap');
  });

  it('counts what was dropped [cli.json]', async () => {
    const { stdout } = await spearRun([loud, '--json', '--limit', 'log_bytes_per_second=1024', '--', '1000']);
    expect(JSON.parse(stdout)).toMatchObject({ hostcalls: { log: 1000 }, dropped_log_lines: expect.any(Number) });
    expect(JSON.parse(stdout).dropped_log_lines).toBeGreaterThan(0);
  });
});

const MEGABYTES = 4;
const text = Array.from({ length: MEGABYTES * 16_384 }, (_, index) => `${String(index).padStart(62)}é\n`).join('');
const digest = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');

describe('a pipe', () => {
  it('that is read slowly loses nothing of several megabytes', async () => {
    const cli = new Cli([loud, ...unbounded, '--', '100000']);
    const parts: Buffer[] = [];
    for await (const part of cli.child.stdout) {
      parts.push(part);
      await nextTurn();
    }
    const lines = Buffer.concat(parts).toString().trimEnd().split('\n');
    expect(lines).toHaveLength(100_001);
    expect(lines[99_999]).toBe('line 99999 of a guest that logs in a loop');
    expect(await cli.finished()).toMatchObject({ code: 0 });
  });

  it('carries megabytes from stdin to stdout unchanged [cli.stdin]', async () => {
    const { code, stdout } = await spearRun([echo], { input: text });
    expect(code).toBe(0);
    expect(digest(stdout)).toBe(digest(text));
  });

  it('whose reader closes early does not disturb the guest', async () => {
    const cli = new Cli([loud, ...unbounded, '--json', '--', '100000']);
    let result = '';
    cli.child.stdout.setEncoding('utf8').on('data', (part: string) => {
      result += part;
    });
    cli.child.stderr.once('data', () => cli.child.stderr.destroy());
    expect(await cli.finished()).toMatchObject({ code: 0, signal: null });
    expect(JSON.parse(result)).toMatchObject({ exit_code: 0, hostcalls: { log: 100_000 } });
  });

  it('whose reader is gone from the start is no error of the host’s own output', async () => {
    for (const args of [['--help'], [hello, '--json'], [hello, '--dry-run'], [hello]]) {
      const cli = new Cli(args);
      cli.child.stdout.destroy();
      let complaint = '';
      cli.child.stderr.setEncoding('utf8').on('data', (part: string) => {
        complaint += part;
      });
      expect(await cli.finished()).toMatchObject({ code: 0, signal: null });
      expect(complaint.replace('hello from C\n', '')).toBe('');
    }
  });
});

describe('stdin', () => {
  it('reaches a guest piece by piece as it comes [cli.stdin]', async () => {
    const cli = new Cli([echo]).listen();
    cli.child.stdin.write('first\n');
    await cli.says('stdout', 'first\n');
    cli.child.stdin.write('second\n');
    await cli.says('stdout', 'second\n');
    cli.child.stdin.end();
    expect(await cli.finished()).toEqual({ code: 0, signal: null, stdout: 'first\nsecond\n', stderr: '' });
  });

  it('that stays open does not keep a guest that ends [cli.stdin]', async () => {
    expect(await new Cli([hello]).listen().finished()).toMatchObject({ code: 0, stdout: 'hello from C\n' });
  });
});
