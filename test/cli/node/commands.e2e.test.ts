import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtCommand } from '../../support/built-command.ts';
import { NodeLives, writeNodeFolder } from '../../torture/node/node-life.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-node-cli-'));
const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const node = new NodeLives(folder);
const env = { PATH: process.env.PATH, HOME: folder, SPEAR_NODE: `unix:${join(folder, 'data/sockets/http.sock')}` };

const spear = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand('spear'), ...args], {
    encoding: 'utf8',
    cwd: folder,
    env,
  });
  return { status, stdout, stderr };
};

beforeAll(async () => {
  writeNodeFolder(folder);
  await node.start();
}, 60_000);
afterAll(async () => {
  await node.kill();
  rmSync(folder, { recursive: true, force: true });
});

describe('spear tasks, run and runs', () => {
  it('apply a task, run it with an input, and show what became of it', () => {
    writeFileSync(join(folder, 'mine.toml'), `name = "mine"\nwasm = ${JSON.stringify(fixture('c/hello.wasm'))}\n`);
    expect(spear('tasks', 'apply', 'mine.toml')).toMatchObject({ status: 0, stdout: 'default/mine@1 created\n' });
    expect(spear('tasks', 'apply', 'mine.toml').stdout).toBe('default/mine@1 unchanged\n');
    expect(spear('tasks', 'ls').stdout).toMatch(/default\/mine +1\/1/);
    const run = spear('run', 'mine', '--input', 'mine.toml', '--follow');
    expect(run).toMatchObject({ status: 0, stdout: 'hello from C\n' });
    expect(run.stderr).toContain('status | succeeded');
    const { runs } = JSON.parse(spear('runs', 'ls', '--task', 'mine', '--json').stdout) as { runs: { id: string }[] };
    const id = runs[0]?.id ?? '';
    expect(spear('runs', 'get', id).stdout).toContain('status: succeeded');
    expect(spear('runs', 'result', id).stdout).toBe('hello from C\n');
    expect(spear('runs', 'logs', id).stderr).toContain('status | succeeded');
    writeFileSync(join(folder, 'run.journal'), spear('runs', 'journal', id).stdout);
    expect(spear('journal', 'verify', 'run.journal').status).toBe(0);
    const again = spear('runs', 'retry', id).stdout.trim();
    expect(spear('runs', 'get', again).stdout).toContain(`retry_of: ${id}`);
    expect(spear('tasks', 'rm', 'mine').stdout).toBe('default/mine removed\n');
    expect(spear('run', 'mine').status).toBe(1);
  });

  it('say what is wrong: words, files, nodes that are not there, tokens', () => {
    expect(spear('tasks', 'aply').stderr).toContain('did you mean "spear tasks apply"?');
    expect(spear('runs', 'lst').stderr).toContain('did you mean "spear runs ls"?');
    expect(spear('run').status).toBe(2);
    expect(spear('run', 'hello', '--input', 'nowhere').stderr).toContain('cannot be read (ENOENT)');
    writeFileSync(join(folder, 'bad.toml'), 'name = "bad"\nwasm = "nowhere.wasm"\n');
    expect(spear('tasks', 'apply', 'bad.toml').stderr).toContain('nowhere.wasm cannot be read (ENOENT)');
    writeFileSync(join(folder, 'bad.toml'), 'name = "bad"\nwasm = "bad.toml"\n');
    expect(spear('tasks', 'apply', 'bad.toml').stderr).toContain('not a WebAssembly binary');
    expect(spear('runs', 'ls', '--node', '127.0.0.1:1').status).toBe(3);
    writeFileSync(join(folder, 'wrong.token'), `${'x'.repeat(64)}\n`, { mode: 0o600 });
    expect(spear('runs', 'ls', '--token-file', 'wrong.token').status).toBe(4);
    expect(spear('tasks', 'promote', 'hello').status).toBe(2);
    expect(spear('tasks', 'promote', 'hello@7').stderr).toContain('has no revision 7');
  });

  it('leave a run alone when somebody presses Ctrl-C', async () => {
    const spin = [
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1],
      ...[7, 19, 2, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 0, 6, 0x5f, 0x73, 0x74, 0x61, 0x72, 0x74, 0, 0],
      ...[10, 9, 1, 7, 0, 3, 0x40, 0x0c, 0, 0x0b, 0x0b],
    ];
    writeFileSync(join(folder, 'spin.wasm'), Uint8Array.from(spin));
    writeFileSync(join(folder, 'spin.toml'), 'name = "spin"\nwasm = "spin.wasm"\n');
    expect(spear('tasks', 'apply', 'spin.toml').status).toBe(0);
    const child = spawn(process.execPath, [builtCommand('spear'), 'run', 'spin', '--follow'], { cwd: folder, env });
    let said = '';
    const running = new Promise<void>((resolve) => {
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        if (said.includes('status | running')) resolve();
      });
    });
    await running;
    const exited = once(child, 'exit');
    child.kill('SIGINT');
    expect((await exited)[0]).toBe(130);
    const id = /spear runs cancel (\S+)/.exec(said)?.[1] ?? '';
    expect(spear('runs', 'cancel', id)).toMatchObject({ status: 0, stdout: `${id} is being cancelled\n` });
  });
});
