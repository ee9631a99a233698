import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'spear-bench-check-'));
const baseline = join(folder, 'baseline.json');
const RUN_MS = 600_000;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** By time alone: other tests run beside this one, and what they take of the processors is in the other figures. */
async function check(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const command = ['bench/check.ts', '--only', 'hostcalls', '--baseline', baseline, ...args];
  const child = spawn(process.execPath, command, { cwd: root, timeout: RUN_MS });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, stdout, stderr };
}

/** The committed ratios, times a factor. */
function scaledBaseline(factor: number): void {
  const { ratios, ...rest } = JSON.parse(readFileSync(join(root, 'bench/baselines/default.json'), 'utf8'));
  const scaled = Object.entries(ratios).map(([name, ratio]) => [name, Number(ratio) * factor]);
  writeFileSync(baseline, JSON.stringify({ ...rest, ratios: Object.fromEntries(scaled) }));
}

describe('npm run bench:check', { timeout: RUN_MS }, () => {
  it('measures a regression again, shows both results, fails, and says how to accept it [bench.check]', async () => {
    scaledBaseline(0.3);
    const { code, stdout, stderr } = await check();
    expect(code).toBe(1);
    expect(stdout).toMatch(/^ +baseline +measured +again$/m);
    expect(stdout).toMatch(/^cchat_recv +[\d.]+ +[\d.]+ +[\d.]+ +slower$/m);
    expect(stderr).toMatch(/^cchat_recv: slower, ratio [\d.]+, its baseline is [\d.]+$/m);
    expect(stderr).toContain('npm run bench:check -- --accept');
  });

  it('passes where everything is at least as fast, and says what got faster [bench.check]', async () => {
    scaledBaseline(10);
    const { code, stdout, stderr } = await check();
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^faster than the baseline; consider --accept: .*cchat_recv/m);
    expect(stdout).toContain('no regression among ');
  });

  it('notices a hostcall that got 30 % slower than what it has just accepted [bench.check]', async () => {
    expect((await check('--accept')).code).toBe(0);
    const slower = await check('--slow', 'cchat_write_msg');
    expect(slower.code, slower.stdout).toBe(1);
    expect(slower.stderr).toMatch(/^cchat_write_msg 64 B: slower/m);
  });

  it('says what to do without a baseline [bench.check]', async () => {
    rmSync(baseline, { force: true });
    const { code, stderr } = await check();
    expect(code).toBe(1);
    expect(stderr).toContain('create one with npm run bench:check -- --accept');
  });
});
