import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { helpText } from '../../src/cli/command-help.ts';
import { exitCodes } from '../../src/cli/exit-codes.ts';
import { runProgramTable } from '../../src/cli/run/table.ts';
import { inEnoughTime } from '../support/enough-time.ts';
import { runnable } from '../support/small-modules.ts';
import { withoutTable } from '../support/without-table.ts';
import { Cli, fixture, scratch, spearRun } from './spear-run.ts';

const spin = fixture('c/test/spin.wasm');

describe('the exit code is the guest’s own', () => {
  it.each([
    [['0'], 0],
    [['7'], 7],
    [['7', 'return'], 7],
    [['125'], 125],
    [['255', 'return'], 255],
    [['300'], 44],
    [['-1'], 255],
  ])('for %j it is %i [cli.exit-code.guest]', async (args, code) => {
    expect(await spearRun([fixture('c/test/exit.wasm'), '--', ...args])).toMatchObject({
      code,
      stdout: '',
      stderr: '',
    });
  });

  it('also when it exits inside a tool callback [cli.exit-code.guest]', async () => {
    const args = [fixture('c/test/nested.wasm'), '--script', fixture('scripts/test/nested.json'), '--', 'exit'];
    expect(await spearRun(args)).toMatchObject({ code: 7, stdout: 'inside: exit\n' });
  });
});

/** Long enough for a guest to have started on a busy machine. */
const DEADLINE = ['--limit', 'timeout_ms=3000'];

describe('124 after the deadline', () => {
  it('whatever the guest does, and what it wrote before is there [cli.exit-code.deadline]', async () => {
    await inEnoughTime(1_500, async (ms) => {
      const deadline = ['--limit', `timeout_ms=${ms}`];
      const catchAll = (mode: string) => [
        ...[fixture('c/test/catch-all.wasm'), '--script', fixture('scripts/test/slow.json')],
        ...[...deadline, '--', mode],
      ];
      const guests = [[spin, ...deadline], catchAll('sleep'), catchAll('wait'), catchAll('send')];
      const stderr = `spear-run: the guest ran longer than limits.timeout_ms = ${ms}\n`;
      for (const ended of await Promise.all(guests.map((args) => spearRun(args)))) {
        expect(ended).toEqual({ code: 124, signal: null, stdout: 'before the loop\n', stderr });
      }
    });
  });

  it('of a guest that waits for input which never comes [cli.exit-code.deadline]', async () => {
    const cli = new Cli([fixture('c/test/echo-stdin.wasm'), '--limit', 'timeout_ms=500']).listen();
    expect(await cli.finished()).toMatchObject({ code: 124 }); // its stdin stays open
  });

  it('of a guest whose output nobody reads [cli.exit-code.deadline]', async () => {
    const unbounded = ['--limit', 'log_bytes_per_second=1073741824'];
    const cli = new Cli([fixture('c/test/loud.wasm'), ...unbounded, ...DEADLINE, '--', '100000000']);
    cli.child.once('exit', () => cli.listen()); // read only now: Node would throw away what it finds later
    const { code, stdout } = await cli.finished();
    expect(code).toBe(124);
    expect(stdout.startsWith('line 0 of a guest that logs in a loop\n')).toBe(true);
  });
});

it('134 after a trap, with the reason and the functions of the guest on stderr [cli.exit-code.trap]', async () => {
  const { code, stdout, stderr } = await spearRun([fixture('c/test/trap.wasm')]);
  expect({ code, stdout }).toEqual({ code: 134, stdout: 'before the trap\n' });
  const [first, ...frames] = stderr.trimEnd().split('\n');
  expect(first).toBe('spear-run: the guest trapped: unreachable');
  expect(frames.map((frame) => /^ {4}at \S*\.(\w+) \(wasm:/.exec(frame)?.[1])).toEqual(
    expect.arrayContaining(['reach_the_unreachable', 'walk_to_the_trap', '__original_main', '_start']),
  );
});

describe('a signal ends the guest, then the host', () => {
  const interrupted = 'spear-run: the guest was interrupted\n';

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s, while it spins: %i [cli.exit-code.interrupt]', async (signal, code) => {
    const cli = new Cli([spin]).listen();
    await cli.says('stdout', 'before the loop\n');
    cli.child.kill(signal);
    expect(await cli.finished()).toEqual({ code, signal: null, stdout: 'before the loop\n', stderr: interrupted });
  });

  it('SIGINT, while it sleeps [cli.exit-code.interrupt]', async () => {
    const cli = new Cli([fixture('c/test/sleep.wasm'), '--', '600000']).listen();
    await cli.says('stdout', 'before the sleep\n');
    cli.child.kill('SIGINT');
    expect(await cli.finished()).toEqual({
      code: 130,
      signal: null,
      stdout: 'before the sleep\n',
      stderr: interrupted,
    });
  });

  it('SIGINT, while a model works for it and it catches everything [cli.exit-code.interrupt]', async () => {
    const args = [fixture('c/test/catch-all.wasm'), '--script', fixture('scripts/test/slow.json'), '--', 'send'];
    const cli = new Cli(args).listen();
    await cli.says('stdout', 'before the loop\n');
    cli.child.kill('SIGINT');
    expect(await cli.finished()).toMatchObject({ code: 130, stderr: interrupted });
  });

  it('with the result object, when one was asked for [cli.exit-code.interrupt] [cli.json]', async () => {
    const cli = new Cli([spin, '--json']).listen();
    await cli.says('stderr', 'before the loop\n');
    cli.child.kill('SIGINT');
    const { code, stdout } = await cli.finished();
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({ exit_code: 130, reason: 'interrupted', guest_exit_code: null });
  });

  it('and a second one ends the host at once, whatever it still waits for [cli.exit-code.interrupt]', async () => {
    const fakeHang = join(scratch, 'fake-hang.cjs');
    writeFileSync(
      fakeHang,
      `require('node:worker_threads').Worker.prototype.terminate = () => {
        require('node:fs').writeSync(2, 'a thread that does not end');
        return new Promise(() => {});
      };`,
    );
    const cli = new Cli([spin], { nodeArgs: ['--require', fakeHang] }).listen();
    await cli.says('stdout', 'before the loop\n');
    cli.child.kill('SIGINT');
    await cli.says('stderr', 'a thread that does not end');
    cli.child.kill('SIGINT');
    expect(await cli.finished()).toMatchObject({ code: 130, stderr: 'a thread that does not end' });
  });
});

it('lists the exit codes in its help', () => {
  const runHelp = helpText(runProgramTable, 'spear-run');
  for (const code of Object.values(exitCodes)) expect(runHelp).toMatch(new RegExp(`\\b${code} `));
});

describe('125 for a module that was not built right', () => {
  const written = (name: string, bytes: Uint8Array) => {
    const file = join(scratch, name);
    writeFileSync(file, bytes);
    return file;
  };

  it('tools without a table: said before the run, and after it [tool.unreachable]', async () => {
    const wasm = written('no-table.wasm', withoutTable(readFileSync(fixture('c/sum.wasm'))));
    const script = written(
      'no-table.json',
      Buffer.from(
        JSON.stringify({
          turns: [
            { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'sum', arguments: {} }] } },
            { when: { role: 'tool' }, reply: { content: 'done' } },
          ],
        }),
      ),
    );
    const { code, stdout, stderr } = await spearRun([wasm, '--script', script]);
    expect(code).toBe(exitCodes.usage);
    expect(stdout).toBe('done\n');
    expect(stderr).toMatch(/^spear-run: the tools of this guest will fail: .*--export-table/);
    expect(stderr).toContain(`spear-run: ${wasm}: the tools of the guest could not be called: `);
  });

  it.each([{ flags: ['--json'] }, { flags: ['--dry-run'] }, { flags: [] }])(
    'the core module of a component: what to do with it is said with $flags [prepare.unknown-imports]',
    async ({ flags }: { flags: readonly string[] }) => {
      const imports = (from: string) => runnable((module) => module.importFunction(from, 'log', ['i32']));
      const parts = await spearRun([written('parts.wasm', imports('spear:host/log@1.0.0')), ...flags]);
      expect(parts.code).toBe(exitCodes.usage);
      expect(parts.stderr).toContain('create the component first: spear componentize');
      expect(parts.stderr).not.toContain('--allow-unknown-imports');
      const unknown = await spearRun([written('unknown.wasm', imports('other')), ...flags]);
      expect(unknown.stderr).toContain('--allow-unknown-imports');
      if (flags.includes('--json')) expect(JSON.parse(parts.stdout).message).toContain('spear componentize');
    },
  );
});
