import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Cli, fixture } from '../../e2e/spear-run.ts';
import { eventually, processesWith, tempDir } from './client/pool-samples.ts';
import { recordDir, recordOf, script, taskWithMcp } from './mcp-run.ts';
import { notingServer } from './noting-server.ts';

/** In the environment of every server of one test. */
const newMarker = () => `test-${randomUUID().slice(0, 8)}`;

/** A run whose guest waits for calls that never end, with a second server that ignores every request to end. */
async function stuckRun() {
  const marker = newMarker();
  const tmp = tempDir();
  const server = notingServer('hanging', 'mid-call.mjs');
  const env = { ...server.record.stdio?.env, MARKER: marker };
  const dir = recordDir({
    'hanging.json': recordOf('hanging', 'mid-call.mjs', { env }),
    'stubborn.json': recordOf('stubborn', 'stubborn.mjs', { env }),
  });
  const hang = (id: string) => ({ id, name: 'hanging_hang', arguments: {} });
  const flags = [...taskWithMcp(['hanging', 'stubborn']), '--mcp-dir', dir];
  const model = script({ reply: { tool_calls: [hang('a'), hang('b')] } });
  const cli = new Cli([fixture('c/files.wasm'), ...flags, ...model], { env: { TMPDIR: tmp } }).listen();
  await server.until('call', 'call');
  expect(processesWith(marker).length).toBeGreaterThanOrEqual(3);
  return { cli, server, marker, tmp };
}

/** Nothing is left: no process, no temporary file. */
async function nothingLeft(marker: string, tmp: string): Promise<void> {
  await eventually(() => expect(processesWith(marker)).toEqual([]));
  await eventually(() => expect(readdirSync(tmp)).toEqual([]));
}

describe('spear-run leaves no server behind', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('after %s in the middle of a call, which the server is told', async (signal, expected) => {
    const { cli, server, marker, tmp } = await stuckRun();
    cli.child.kill(signal);
    const { code, stderr } = await cli.finished();
    expect(code).toBe(expected);
    // On a busy machine it also says that servers take their time to start.
    const said = stderr.replaceAll(/^spear-run: waiting for server .*\n/gm, '');
    expect(said).toBe('spear-run: the guest was interrupted\n');
    expect(processesWith(marker)).toEqual([]);
    expect(readdirSync(tmp)).toEqual([]);
    expect(server.lines().map((line) => line.split(' ')[0])).toEqual(['call', 'call', 'cancelled', 'cancelled']);
  });

  it('after a second Ctrl-C, which ends it at once', async () => {
    const { cli, marker, tmp } = await stuckRun();
    cli.child.kill('SIGINT');
    await cli.says('stderr', 'the guest was interrupted'); // and now the stubborn server is waited for
    cli.child.kill('SIGINT');
    expect((await cli.finished()).signal).toBe('SIGINT');
    await nothingLeft(marker, tmp);
  });

  it.runIf(process.platform === 'linux')('after SIGKILL', async () => {
    const { cli, marker, tmp } = await stuckRun();
    cli.child.kill('SIGKILL');
    expect((await cli.finished()).signal).toBe('SIGKILL');
    await nothingLeft(marker, tmp);
  });

  it('after the guest ended by itself', async () => {
    const marker = newMarker();
    const tmp = tempDir();
    const dir = recordDir({ 'stubborn.json': recordOf('stubborn', 'stubborn.mjs', { env: { MARKER: marker } }) });
    const flags = [...taskWithMcp(['stubborn']), '--mcp-dir', dir, '--', 'stubborn', 'pids', '{}'];
    const cli = new Cli([fixture('c/mcp.wasm'), ...flags], { env: { TMPDIR: tmp } }).listen();
    expect((await cli.finished()).code).toBe(0);
    expect(processesWith(marker)).toEqual([]);
    expect(readdirSync(tmp)).toEqual([]);
  });
});

it('keeps the home of a server between runs, in the state directory of the user', async () => {
  const state = tempDir();
  const dir = recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') });
  const flags = [...taskWithMcp(['tiny']), '--mcp-dir', dir, '--', 'tiny', 'pid', '{}'];
  const run = () => new Cli([fixture('c/mcp.wasm'), ...flags], { env: { XDG_STATE_HOME: state } }).listen().finished();
  for (let time = 0; time < 2; time++) expect((await run()).code).toBe(0);
  expect(readdirSync(join(state, 'spear', 'home'))).toEqual([expect.stringMatching(/^tiny-/)]);
});
