import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { writeNodeFolder } from '../../torture/node/node-life.ts';

const control = String.fromCodePoint(0x1b);
/** Erases the line, and writes another. */
const hostile = `no list${control}[2K\rspear-run: all is well\n`;
const folder = join(scratch, 'degraded');

beforeAll(() => {
  mkdirSync(folder);
  writeNodeFolder(folder);
  const stdio = {
    command: process.execPath,
    args: [fixture('mcp-servers/lists.mjs'), 'fails'],
    env: { ERROR: hostile },
  };
  const record = { server_id: 'broken', transport: 'stdio', stdio, allowed_tools: ['*'] };
  writeFileSync(join(folder, 'mcp.d', 'broken.json'), JSON.stringify(record));
});

const run = (servers: readonly string[], ...more: readonly string[]) => {
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(servers) };
  const task = join(folder, 'task.json');
  writeFileSync(task, JSON.stringify({ name: 'agent', config }));
  const where = ['--config', join(folder, 'config.toml'), '--mcp-dir', join(folder, 'mcp.d')];
  return spearRun([fixture('c/files.wasm'), '--task-config', task, ...where, ...more]);
};

it('spear-run says once on stderr which server a run lacks, and why, as harmless text [cli.degraded]', async () => {
  const { code, stdout, stderr } = await run(['ledger', 'broken']);
  expect([code, stdout]).toEqual([0, expect.stringContaining('all done')]);
  expect(
    stderr.match(/^spear-run: the run continues without the tools of MCP server broken: .*no list/gm),
  ).toHaveLength(1);
  expect(stderr).not.toContain(control);
  expect(stderr).not.toContain('\r');
  expect(stderr).not.toMatch(/^spear-run: all is well/m);
});

it('spear-run --json has the servers that a run lacked, and nothing for a run that had all [cli.degraded]', async () => {
  const degraded = [{ server: 'broken', reason: expect.stringContaining('no list') }];
  const json = async (servers: readonly string[]) => {
    const { stdout } = await run(servers, '--json');
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as { degraded?: unknown };
  };
  expect(await json(['ledger', 'broken'])).toMatchObject({ exit_code: 0, degraded });
  expect((await json(['ledger'])).degraded).toBeUndefined();
});
