import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually, isAlive } from '../agent/mcp/client/pool-samples.ts';
import { NodeLives } from '../torture/node/node-life.ts';

interface Call {
  readonly name: string;
  readonly pid: number;
  readonly told: readonly string[];
  readonly home: string;
}

const folder = mkdtempSync(join(tmpdir(), 'spear-node-scope-'));
const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
const node = new NodeLives(folder);
const scopes = ['run', 'task', 'node'] as const;
const RUNS = 4;

/** Two tasks of each of two teams, whose model tells three servers something. */
beforeAll(async () => {
  for (const name of ['tasks.d', 'mcp.d']) mkdirSync(join(folder, name));
  const tool_calls = scopes.map((id) => ({ id, name: `${id}_remember`, arguments: { text: 'x' } }));
  const turns = [
    { when: { role: 'user' }, reply: { tool_calls }, repeat: true },
    { when: { tool_call_id: 'node' }, reply: { content: 'done' }, repeat: true },
  ];
  writeFileSync(join(folder, 'script.json'), JSON.stringify({ turns }));
  const submitters = 'submitters = [{ name = "bob", namespace = "team-b" }, { name = "carol", namespace = "team-c" }]';
  writeFileSync(
    join(folder, 'config.toml'),
    `[backends.main]\nkind = "scripted"\nscript = "script.json"\n[node]\n${submitters}\n`,
  );
  for (const scope of scopes) {
    const env = { TRAIL: join(folder, 'trail'), NAME: scope };
    const stdio = { command: process.execPath, args: [fixture('mcp-servers/remembering.mjs')], env };
    const record = { server_id: scope, transport: 'stdio', stdio, allowed_tools: ['*'], connection_scope: scope };
    // Team-c may not use what the node shares.
    const more = scope === 'node' ? { namespaces: ['default', 'team-b'] } : {};
    writeFileSync(join(folder, 'mcp.d', `${scope}.json`), JSON.stringify({ ...record, ...more }));
  }
  for (const namespace of ['default', 'team-b', 'team-c']) {
    const task = [
      'name = "agent"',
      `namespace = "${namespace}"`,
      `wasm = ${JSON.stringify(fixture('c/files.wasm'))}`,
      '[config]',
      '"mcp.enabled" = true',
      '"mcp.default_server_ids" = ["run", "task", "node"]',
    ];
    writeFileSync(join(folder, 'tasks.d', `${namespace}.toml`), task.join('\n'));
  }
  await node.start();
}, 60_000);

afterAll(async () => {
  await node.stop();
  rmSync(folder, { recursive: true, force: true });
});

const calls = () =>
  readFileSync(join(folder, 'trail'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Call);
const run = (namespace: string) =>
  node.ask('POST', `/v1/namespaces/${namespace}/tasks/agent/runs`, { body: 'x', headers: { prefer: 'wait=60' } });

it('says who shares the process of a server on a node, and its HOME [node.connection-scope]', async () => {
  for (const namespace of ['default', 'team-b']) {
    for (let n = 0; n < RUNS / 2; n++) expect(await run(namespace)).toMatchObject({ status: 200 });
  }
  const of = (scope: string) => calls().filter(({ name }) => name === scope);
  const distinct = (scope: string, what: 'pid' | 'home') => new Set(of(scope).map((call) => call[what])).size;
  expect(scopes.map((scope) => of(scope).length)).toEqual([RUNS, RUNS, RUNS]);
  expect(scopes.map((scope) => distinct(scope, 'pid'))).toEqual([RUNS, 2, 1]);
  expect(scopes.map((scope) => distinct(scope, 'home'))).toEqual([RUNS, 2, 1]);
  expect(scopes.map((scope) => of(scope).at(-1)?.told.length)).toEqual([1, RUNS / 2, RUNS]);
  // What a run had for itself ends with it; the others are there for the next one.
  await eventually(() => expect(of('run').filter(({ pid }) => isAlive(pid))).toEqual([]));
  expect([...of('task'), ...of('node')].every(({ pid }) => isAlive(pid))).toBe(true);
}, 120_000);

it('of a node admits only the namespaces that the record names [node.connection-scope]', async () => {
  const before = calls().length;
  await run('team-c');
  const since = calls().slice(before);
  expect(since.map(({ name }) => name).sort()).toEqual(['run', 'task']);
}, 60_000);
