import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import type { Row } from '../../bench/measure/row.ts';
import { calls } from '../../src/runtime/abi/calls.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'spear-bench-test-'));
const RUN_MS = 600_000;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, ['bench/main.ts', ...args], { cwd: root, timeout: RUN_MS });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, stdout, stderr };
}

async function rowsOf(...topics: string[]): Promise<Row[]> {
  const file = join(folder, `${topics.join('-')}.json`);
  const { code, stderr } = await bench('--quick', '--json', file, ...topics);
  expect(code, stderr).toBe(0);
  return JSON.parse(readFileSync(file, 'utf8'));
}

const everyFigureIsANumber = (rows: readonly Row[]) => {
  for (const { name, median, p99, yardstick, ratio, ratioLow, ratioHigh } of rows) {
    for (const value of [median, p99, yardstick, ratio, ratioLow, ratioHigh]) expect(value, name).toBeTypeOf('number');
    expect(ratioLow, name).toBeLessThanOrEqual(ratio as number);
    expect(ratioHigh, name).toBeGreaterThanOrEqual(ratio as number);
  }
};

describe('npm run bench', { timeout: RUN_MS }, () => {
  it('writes the figures of a topic as a table, as JSON and as a page', async () => {
    const [json, html] = [join(folder, 'waiting.json'), join(folder, 'waiting.html')];
    const { code, stdout, stderr } = await bench('--quick', 'waiting', '--json', json, '--html', html);
    expect(code, stderr).toBe(0);
    const rows: Row[] = JSON.parse(readFileSync(json, 'utf8'));
    expect(rows).toHaveLength(4);
    const page = readFileSync(html, 'utf8');
    for (const row of rows) {
      const keys = ['topic', 'name', 'unit', 'median', 'p99', 'yardstick', 'ratio', 'goal', 'ok'];
      expect(Object.keys(row)).toEqual(expect.arrayContaining(keys));
      expect(stdout).toContain(row.name);
      expect(page).toContain(row.name);
    }
    everyFigureIsANumber(rows);
    expect(stdout).toContain(`Node ${process.version}`);
    expect(stdout).toMatch(/4 figures in \d+ s: /);
  });

  it('measures every hostcall that never waits, beside what it cannot do without', async () => {
    const rows = await rowsOf('hostcalls');
    everyFigureIsANumber(rows);
    const measured = rows.map(({ name }) => name).join('\n');
    const local = calls.filter(
      ({ mode, support, name }) => mode === 'local' && support === 'full' && name !== 'mcp_submit',
    );
    // Closing is the same function in every family, and frames need a client.
    const left = (name: string) => name === 'mcp_close' || /^user_stream_(?!open)/.test(name);
    for (const { name } of local) if (!left(name)) expect(measured).toContain(name);
    const wanted = rows.filter(({ goal }) => goal === 'ratio ≤ 1.5').map(({ yardstickName }) => yardstickName);
    expect(new Set(wanted)).toEqual(
      new Set([
        'decode and keep role and text',
        'decode + JSON.parse',
        'encode the metrics',
        'copy the body',
        'encode the status',
      ]),
    );
  });

  it('measures a component beside a core module and beside jco', async () => {
    const rows = await rowsOf('component');
    everyFigureIsANumber(rows);
    expect(new Set(rows.map(({ yardstickName }) => yardstickName))).toEqual(
      new Set(['the same from a core module', "jco's unmodified glue"]),
    );
    for (const { name, ratio, yardstickName } of rows) {
      if (yardstickName.startsWith('jco')) expect(ratio, name).toBeLessThan(0.5);
    }
  });

  it('measures a hop to the host thread', async () => {
    const rows = await rowsOf('async');
    everyFigureIsANumber(rows);
    expect(rows[0]?.median).toBeGreaterThan(1);
  });

  it('names the topics where it is asked for another one', async () => {
    const { code, stderr } = await bench('--quick', 'nothing');
    expect(code).toBe(2);
    expect(stderr).toMatch(/^bench: unknown topic "nothing"; known topics: hostcalls, waiting, /);
  });

  it('explains itself', async () => {
    const { code, stdout } = await bench('--help');
    expect(code).toBe(0);
    for (const word of ['--quick', '--json', '--html', 'tool-loop']) expect(stdout).toContain(word);
  });
});

it('says which servers a search for tools could not be measured with', { timeout: RUN_MS }, async () => {
  const own = { XDG_CACHE_HOME: folder, npm_config_cache: folder, npm_config_offline: 'true' };
  const args = ['bench/main.ts', 'tool-search'];
  const child = spawn(process.execPath, args, { cwd: root, timeout: RUN_MS, env: { ...process.env, ...own } });
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')]);
  expect(stdout).toContain('not measured because 22 of 22 servers could not be had from npm: everything: ');
  expect(stdout).toContain('3 not measured');
});

describe('topics of the whole way', { timeout: RUN_MS }, () => {
  it.each(['mcp', 'tool-loop', 'injection'])('%s gives figures for governed calls', async (topic) => {
    everyFigureIsANumber(await rowsOf(topic));
  });

  it.each(['start', 'density', 'peers', 'growth'])('%s gives figures for what a run holds', async (topic) => {
    everyFigureIsANumber(await rowsOf(topic));
  });

  it('registry gives the way of a change to the nodes, and misses none', async () => {
    const rows = await rowsOf('registry');
    everyFigureIsANumber(rows);
    expect(rows.map(({ goal }) => goal)).toEqual(['p99 ≤ 100 ms', null, 'p99 ≤ 100 ms', null]); // and the disk alone
  });
});
