import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Cli, fixture, scratch, spearRun } from '../e2e/spear-run.ts';
import { frame } from '../support/stream-client.ts';

// One path through the built spear-run per family of promises. The details are tested in the other tiers.

const tour = ['--task-config', fixture('tasks/tour.json'), '--script', fixture('scripts/tour.json')];
const servers = ['--mcp-dir', fixture('mcp.d')];
const sum = [fixture('c/sum.wasm'), '--script', fixture('scripts/sum.json')];

it('runs a core module and returns its exit code', async () => {
  expect(await spearRun([fixture('c/hello.wasm')])).toMatchObject({ code: 0, stderr: '' });
  expect((await spearRun([fixture('c/test/exit.wasm'), '--', '7'])).code).toBe(7);
});

it('runs a component through the same hostcalls', async () => {
  const [core, component] = await Promise.all([
    spearRun([fixture('c/hello.wasm')]),
    spearRun([fixture('c/hello.component.wasm')]),
  ]);
  expect([component.code, component.stdout]).toEqual([core.code, core.stdout]);
});

it('runs a JavaScript guest', async () => {
  expect(await spearRun([fixture('javascript/hello.component.wasm')])).toMatchObject({ code: 0 });
});

it('lets the model call a tool of the guest', async () => {
  const { code, stdout } = await spearRun(sum);
  expect([code, stdout]).toEqual([0, expect.stringContaining('42')]);
});

it('prints one result object with --json', async () => {
  const { code, stdout } = await spearRun([...sum, '--json']);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ reason: 'exit' });
});

it('waits for several sends with epoll', async () => {
  const args = ['--task-config', fixture('tasks/epoll.json'), '--script', fixture('scripts/epoll.json')];
  expect((await spearRun([fixture('c/epoll.wasm'), ...args])).code).toBe(0);
});

it('calls tools of a real MCP server, and policy denies one of them', async () => {
  const audit = join(scratch, 'tour.jsonl');
  const { code } = await spearRun([fixture('c/tour.wasm'), ...tour, ...servers, '--audit', audit]);
  expect(code).toBe(0);
  const events = readFileSync(audit, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; status?: string });
  const calls = events.filter(({ event }) => event === 'tool_call.finished').map(({ status }) => status);
  expect(calls).toContain('ok');
});

it('reads resources of an MCP server', async () => {
  const args = ['--task-config', fixture('tasks/resources.json'), ...servers];
  expect((await spearRun([fixture('c/resources.wasm'), ...args])).code).toBe(0);
});

it('exchanges frames with a client of a user stream', async () => {
  const cli = new Cli([fixture('c/echo.wasm'), '--stream', 'stdio']).listen();
  cli.child.stdin.end(frame(1, 'hello'));
  const { code, stdout } = await cli.finished();
  expect([code, stdout]).toEqual([0, expect.stringContaining('HELLO')]);
});

it('ends a guest at its deadline with 124', async () => {
  expect((await spearRun([fixture('c/test/spin.wasm'), '--limit', 'timeout_ms=300'])).code).toBe(124);
});

it('refuses a bad module, a bad flag and a bad task with 125, naming what was found', async () => {
  const task = join(scratch, 'bad-task.json');
  writeFileSync(task, '{"name":"x","limits":{"timeout_ms":"soon"}}');
  const [module, flag, config] = await Promise.all([
    spearRun([task]),
    spearRun([fixture('c/hello.wasm'), '--task-confg', task]),
    spearRun([fixture('c/hello.wasm'), '--task-config', task]),
  ]);
  expect([module.code, flag.code, config.code]).toEqual([125, 125, 125]);
  expect(flag.stderr).toContain('--task-config');
  expect(config.stderr).toContain('timeout_ms');
});
