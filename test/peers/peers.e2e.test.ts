import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { httpServers } from '../../scripts/peers/http-servers.ts';
import { moreServers } from '../../scripts/peers/more-servers.ts';
import { pypiServers } from '../../scripts/peers/pypi-servers.ts';
import { transportOf } from '../../scripts/peers/real-server.ts';
import { searchedServers } from '../../scripts/peers/searched-servers.ts';
import { toRecords } from '../../src/agent/mcp/toolbox-server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const RUN_MS = 60_000;

/** Without a network, and with nothing installed. */
async function peersOffline(...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'spear-peers-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const env = { ...process.env, XDG_CACHE_HOME: folder, npm_config_cache: folder, npm_config_offline: 'true' };
  const child = spawn(process.execPath, ['scripts/peers/main.ts', ...args], { cwd: root, timeout: RUN_MS, env });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, stdout, stderr };
}

it('names every server once for each way to speak to it, in one version', () => {
  const servers = [...searchedServers, ...moreServers, ...pypiServers, ...httpServers];
  const ways = servers.map((server) => `${server.from ?? 'npm'} ${server.package} ${transportOf(server)}`);
  expect(new Set(ways).size).toBe(servers.length);
  expect(new Set(servers.map(transportOf))).toEqual(new Set(['stdio', 'streamable_http', 'http_sse_legacy']));
  for (const { version } of servers) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  const transport = { kind: 'stdio', command: 'node' } as const;
  expect(toRecords(servers.map(({ id }) => ({ name: id, transport })))).toHaveLength(servers.length);
});

it('fails where a server cannot be had, and says which', { timeout: RUN_MS }, async () => {
  const { code, stdout } = await peersOffline('memory', '@modelcontextprotocol/server-filesystem');
  expect(code).toBe(1);
  expect(stdout).toMatch(/^\| @modelcontextprotocol\/server-memory \|.*\| no \| failed: .*cannot be installed: /m);
  expect(stdout).toContain('2 servers: 0 connected and listed, 0 answered a call');
});

it('names the servers where it is given another one', { timeout: RUN_MS }, async () => {
  const { code, stderr } = await peersOffline('nobody');
  expect(code).toBe(2);
  expect(stderr).toMatch(/^peers: unknown server "nobody"; known servers: everything, filesystem, /);
});
