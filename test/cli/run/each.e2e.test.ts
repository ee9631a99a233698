import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { builtCommand } from '../../support/built-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-each-'));
afterAll(() => rmSync(folder, { recursive: true }));

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const spearRun = (...args: string[]): SpawnSyncReturns<string> =>
  spawnSync(process.execPath, [builtCommand('spear-run'), ...args], { encoding: 'utf8', cwd: folder });
const linesOf = (name: string) =>
  readFileSync(join(folder, name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { index: number; sha256: string; exit: number; output: string });

describe('spear-run --each', () => {
  it('runs a guest for each line, and goes on with what is not done [run.each]', () => {
    writeFileSync(join(folder, 'inputs.jsonl'), '{"n":1}\n\n{"n":2}\n{"n":3}\n');
    const each = ['--each', 'inputs.jsonl', '--results', 'out.jsonl', '--parallel', '2', '--isolation', 'shared'];
    const first = spearRun(fixture('c/hello.wasm'), ...each);
    expect(first.stderr).toContain('3 of 3 done, 0 failed');
    expect(first.status).toBe(0);
    const lines = linesOf('out.jsonl');
    expect(lines.map(({ index }) => index).sort()).toEqual([0, 2, 3]);
    for (const line of lines) expect(line).toMatchObject({ exit: 0, output: 'hello from C\n' });
    expect(spearRun(fixture('c/hello.wasm'), ...each)).toMatchObject({ status: 125 });
    writeFileSync(join(folder, 'inputs.jsonl'), '{"n":1}\n\n{"n":"other"}\n{"n":3}\n{"n":4}\n');
    writeFileSync(join(folder, 'out.jsonl'), `${readFileSync(join(folder, 'out.jsonl'), 'utf8')}{"index":9,"sh`);
    const again = spearRun(fixture('c/hello.wasm'), ...each, '--skip-done');
    expect(again.stderr).toContain('2 of 4 done, 0 failed, 2 skipped');
    const text = readFileSync(join(folder, 'out.jsonl'), 'utf8');
    expect(text.trim().split('\n')).toHaveLength(6);
  });

  it('tells of a guest that failed, with its log, and exits with 1', () => {
    writeFileSync(join(folder, 'one.jsonl'), 'x\n');
    // Without a client of its stream this one fails.
    const run = spearRun(fixture('c/echo.wasm'), '--each', 'one.jsonl', '--results', 'failed.jsonl');
    expect(run.status).toBe(1);
    expect(linesOf('failed.jsonl')[0]).toMatchObject({ exit: 1, log: expect.stringContaining('no client side') });
  });

  it('refuses flags about one guest, and files that are not there', () => {
    const hello = fixture('c/hello.wasm');
    expect(spearRun(hello, '--each', 'x').stderr).toContain('--each needs --results');
    expect(spearRun(hello, '--each', 'x', '--results', 'y', '--json').stderr).toContain(
      '--json cannot be combined with --each',
    );
    expect(spearRun(hello, '--parallel', '3').stderr).toContain('--parallel needs --each');
    expect(spearRun(hello, '--each', 'nowhere', '--results', 'z').stderr).toContain('no such file');
  });

  it('keeps what is done when it is interrupted', async () => {
    writeFileSync(join(folder, 'many.jsonl'), Array.from({ length: 2_000 }, (_, n) => `${n}\n`).join(''));
    const args = [fixture('c/hello.wasm'), '--each', 'many.jsonl', '--results', 'kept.jsonl', '--parallel', '2'];
    const child = spawn(process.execPath, [builtCommand('spear-run'), ...args], { cwd: folder, stdio: 'ignore' });
    const exited = once(child, 'exit');
    const kept = join(folder, 'kept.jsonl');
    while (!existsSync(kept) || readFileSync(kept, 'utf8') === '') await delay(10);
    child.kill('SIGINT');
    expect((await exited)[0]).toBe(130);
    const lines = linesOf('kept.jsonl');
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.length).toBeLessThan(2_000);
    for (const line of lines) expect(line.exit).toBe(0);
  });
});
