import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ceilings, exceeded, SEND_CEILING, START_UP_CEILING } from '../../bench/ceilings.ts';
import type { Report } from '../../bench/report.ts';
import { calls } from '../../src/abi/calls.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
const RUN_MS = 120_000;

let report: Report;
let printed: string;

beforeAll(async () => {
  const file = join(folder, 'report.json');
  const child = spawn(process.execPath, ['bench/main.ts', '--quick', '--json', file], { cwd: root, timeout: RUN_MS });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  expect(code, stderr).toBe(0);
  printed = stdout;
  report = JSON.parse(readFileSync(file, 'utf8'));
}, RUN_MS);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('measures every hostcall that works without MCP, beside a bare import [bench.hostcalls]', () => {
  const measured = report.hostcalls.map(({ name }) => name).join('\n');
  const expected = calls.filter(({ name, support }) => support === 'full' && !name.startsWith('mcp_'));
  const elsewhere = ['cchat_send', 'user_stream_close']; // through the port; the same function as cchat_close
  for (const { name } of expected) if (!elsewhere.includes(name)) expect(measured).toContain(name);
  for (const { name, ratio, nsPerCall } of report.hostcalls) {
    expect(nsPerCall, name).toBeGreaterThan(0);
    expect(ratio, name).toBeGreaterThan(0);
  }
});

it('prints a table and writes the same numbers as JSON [bench.report]', () => {
  for (const { name } of report.hostcalls) expect(printed).toContain(name);
  expect(printed).toContain(`${report.sendUs.toFixed(1)} µs`);
  expect(report.startUp.ratio).toBeGreaterThan(1);
});

it('has a ceiling for everything it measures, and for nothing else [bench.check]', () => {
  expect(report.hostcalls.map(({ name }) => name).sort()).toEqual(Object.keys(ceilings).sort());
});

it('finds what is above its ceiling [bench.check]', () => {
  const startUp = { helloMs: 1, nodeMs: 1, ratio: START_UP_CEILING + 1, fastestRatio: START_UP_CEILING };
  const fine: Report = {
    hostcalls: [{ name: 'cchat_recv', nsPerCall: 1, ratio: 60, against: 'bare' }],
    sendUs: 1,
    sendRatio: SEND_CEILING,
    startUp,
  };
  expect(exceeded(fine)).toEqual([]);
  const slow: Report = {
    hostcalls: [
      { name: 'cchat_recv', nsPerCall: 1, ratio: 60.1, against: 'bare' },
      { name: 'new_call', nsPerCall: 1, ratio: 1, against: 'bare' },
    ],
    sendUs: 1,
    sendRatio: SEND_CEILING + 1,
    startUp: { ...startUp, fastestRatio: START_UP_CEILING + 0.5 },
  };
  expect(exceeded(slow)).toEqual([
    'cchat_recv: 60.1 times bare, its ceiling is 60',
    'new_call has no ceiling in bench/ceilings.ts',
    'a send costs 100001 bare imports, its ceiling is 100000',
    'hello costs 3.50 times an empty Node, its ceiling is 3',
  ]);
});
