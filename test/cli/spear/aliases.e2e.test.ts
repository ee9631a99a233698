import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, it, vi } from 'vitest';
import { fixture } from '../../e2e/spear-run.ts';
import { temporaryDirectory } from '../../registry/running-sms.ts';
import { builtCommand } from '../../support/built-command.ts';
import { runSpear } from './run-spear.ts';

vi.setConfig({ testTimeout: 120_000 });

describe('spear run FILE.wasm', () => {
  it('runs the module like spear-run, and says so [cli.run-file]', async () => {
    const hello = fixture('c/hello.wasm');
    expect(await runSpear(['run', hello])).toEqual({
      code: 0,
      stdout: 'hello from C\n',
      stderr: `spear: running ${hello} in this process\n`,
    });
    expect(await runSpear(['run', fixture('c/test/exit.wasm'), '--', '7'])).toMatchObject({ code: 7 });
    const { stdout } = await runSpear(['run', hello, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ exit_code: 0, reason: 'exit' });
  });

  it('refuses a missing file and flags of the other form with the exit code of spear-run [cli.run-file]', async () => {
    expect(await runSpear(['run', 'missing.wasm'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('missing.wasm: no such file'),
    });
    expect(await runSpear(['run', fixture('c/hello.wasm'), '--detach'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('unknown option --detach for "spear run"'),
    });
  });
});

/** Starts a serving command and stops it when it has printed its addresses. */
async function served(args: readonly string[]) {
  const state = temporaryDirectory();
  const env = { PATH: process.env.PATH, HOME: state, XDG_STATE_HOME: state };
  const child = spawn(process.execPath, [builtCommand('spear'), ...args], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  child.kill('SIGTERM');
  const [code] = await exited;
  return { code, addresses: JSON.parse(line) as object };
}

it('spear registry serve and spear node serve are spear-sms and spearlet [cli.serve-aliases]', async () => {
  const address = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/);
  const registry = await served(['registry', 'serve', '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0']);
  expect(registry).toEqual({ code: 0, addresses: { grpc: expect.any(String), http: address } });
  const node = await served(['node', 'serve', '--listen', '127.0.0.1:0']);
  expect(node).toEqual({ code: 0, addresses: { http: address } });
  expect(await runSpear(['registry', 'backup', '/nowhere/backup', '--data', '/nowhere/registry.db'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no registry at /nowhere/registry.db'),
  });
});
