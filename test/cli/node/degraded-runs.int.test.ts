import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { main } from '../../../src/cli/spear/main.ts';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { startNode } from '../../node/started-spearlet.ts';
import { stopAll, temporaryDirectory } from '../../registry/running-sms.ts';
import { fixture } from '../../registry/tasks/task-calls.ts';

beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', temporaryDirectory());
});
afterEach(async () => {
  vi.restoreAllMocks();
  await stopAll();
  vi.unstubAllEnvs();
});

const control = String.fromCodePoint(0x1b);
const reversed = String.fromCodePoint(0x202e);
/** Erases the line that names the run, and writes another. */
const hostile = `no list${control}[2K\rspear: all is well\n${reversed}`;

/** A node whose agent lacks one server; `spear` is a command in this process, with what it wrote. */
async function startDegraded() {
  const node = await startNode({}, (folder) => {
    const env = { ERROR: hostile };
    const stdio = { command: process.execPath, args: [fixture('mcp-servers/lists.mjs'), 'fails'], env };
    const record = { server_id: 'broken', transport: 'stdio', stdio, allowed_tools: ['*'] };
    writeFileSync(join(folder, 'mcp.d', 'broken.json'), JSON.stringify(record));
    const config = '[config]\n"mcp.enabled" = true\n"mcp.default_server_ids" = ["ledger", "broken"]\n';
    const wasm = JSON.stringify(fixture('c/files.wasm'));
    writeFileSync(join(folder, 'tasks.d', 'agent.toml'), `name = "agent"\nwasm = ${wasm}\n${config}`);
  });
  const where = ['--node', node.node.url, '--token-file', join(node.folder, 'data', 'admin.token')];
  const spear = async (...argv: readonly string[]) => {
    const written = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      vi.spyOn(process[stream], 'write').mockImplementation((text) => {
        written[stream] += Buffer.from(text as Uint8Array).toString();
        return true;
      });
    }
    const code = await main([...argv, ...where]);
    vi.restoreAllMocks();
    return { code, ...written };
  };
  return { node, spear };
}

/** A line that names the server and its error, without what a terminal would do. */
const said = /no tools of server broken: .*no list/;
const expectHarmless = (text: string) => {
  expect(text).not.toContain(control);
  expect(text).not.toContain(reversed);
  expect(text).not.toMatch(/^spear: all is well/m);
  expect(text).not.toContain('\r');
};

it('spear run prints which server a run lacked, and why, as harmless text [cli.degraded]', async () => {
  const { spear } = await startDegraded();
  const run = await spear('run', 'agent');
  expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining('all done') });
  expect(run.stderr).toMatch(new RegExp(`^spear: degraded: ${said.source}`, 'm'));
  expect(run.stdout).not.toContain('degraded');
  expectHarmless(run.stderr);
  const followed = await spear('run', 'agent', '--follow');
  expect(followed.stderr).toMatch(new RegExp(`^degraded \\| ${said.source}`, 'm'));
  expectHarmless(followed.stderr);
});

it('spear runs ls marks a degraded run, and spear runs get has the reason [cli.degraded]', async () => {
  const { node, spear } = await startDegraded();
  await spear('run', 'agent');
  await spear('run', 'hello');
  const listed = await spear('runs', 'ls');
  expect(listed.stdout).toMatch(/ agent@1 +succeeded, degraded +1 /);
  expect(listed.stdout).toMatch(/ hello@1 +succeeded +1 /);
  const { runs } = JSON.parse((await node.ask('/v1/namespaces/default/runs?task=agent')).text) as { runs: RunRecord[] };
  const got = await spear('runs', 'get', runs[0]?.id ?? '');
  expect(got.stdout).toMatch(/^degraded: \[\{"server":"broken","reason":".*no list/m);
  expectHarmless(got.stdout);
  const logs = await spear('runs', 'logs', runs[0]?.id ?? '');
  expect(logs.stderr).toMatch(said);
  expectHarmless(logs.stderr);
});
