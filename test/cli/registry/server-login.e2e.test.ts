import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { StoredLogin } from '../../../src/agent/mcp/client/oauth/login-store.ts';
import { consentInBrowser, startProtectedServer } from '../../agent/mcp/client/oauth/protected-server.ts';
import { tempDir } from '../../agent/mcp/client/pool-samples.ts';
import { fixture } from '../../e2e/spear-run.ts';
import { builtCommand } from '../../support/built-command.ts';

interface Command {
  readonly child: ChildProcessWithoutNullStreams;
  readonly output: () => string;
  /** Where somebody is to log in. */
  readonly address: Promise<URL>;
  readonly code: Promise<number | null>;
}

function run(command: 'spear' | 'spear-run', args: readonly string[], state: string): Command {
  const env = { PATH: process.env.PATH ?? '', HOME: state, XDG_STATE_HOME: state, XDG_CONFIG_HOME: state };
  const child = spawn(process.execPath, [builtCommand(command), ...args], { env });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  const address = Promise.withResolvers<URL>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const found = /log in at (\S+)\n/.exec(output)?.[1];
      if (found !== undefined) address.resolve(new URL(found));
    });
  }
  const code = once(child, 'close').then(([exit]) => exit as number | null);
  return { child, output: () => output, address: address.promise, code };
}

function writeRecord(directory: string, url: string): void {
  mkdirSync(directory);
  const oauth = { grant: 'authorization_code' };
  const record = { server_id: 'tracker', transport: 'streamable_http', http: { url, oauth }, allowed_tools: ['*'] };
  writeFileSync(join(directory, 'tracker.json'), JSON.stringify(record));
}

it('logs in, runs, logs out, and shows no token [mcp.oauth.login.command] [mcp.oauth.hidden]', async () => {
  const server = await startProtectedServer();
  const state = tempDir();
  const records = join(state, 'mcp.d');
  writeRecord(records, server.url);
  const task = join(state, 'task.json');
  const config = { 'mcp.enabled': true, 'mcp.default_server_ids': ['tracker'] };
  writeFileSync(task, JSON.stringify({ name: 'tracking', config }));
  const trail = join(state, 'trail.jsonl');
  const flags = ['--task-config', task, '--mcp-dir', records, '--audit', trail];
  const callTool = () => run('spear-run', [fixture('c/mcp.wasm'), ...flags, '--', 'tracker', 'whoami', '{}'], state);

  const before = callTool();
  await before.code;
  expect(before.output()).toContain('needs a login');
  expect(before.output()).toContain('spear servers login tracker');

  const login = run('spear', ['servers', 'login', 'tracker', '--no-browser', '--mcp-dir', records], state);
  await consentInBrowser(await login.address);
  expect(await login.code, login.output()).toBe(0);
  expect(login.output()).toContain(`tracker: logged in at ${server.issuer}, scope tools.read`);
  const file = join(state, 'spear', 'logins', 'tracker.json');
  const stored = JSON.parse(readFileSync(file, 'utf8')) as StoredLogin;

  const after = callTool();
  await after.code;
  expect(after.output()).toContain('[redacted]');
  expect(server.tokens).toContain(stored.access_token);

  const logout = run('spear', ['servers', 'logout', 'tracker'], state);
  expect(await logout.code).toBe(0);
  expect(readdirSync(join(state, 'spear', 'logins'))).toEqual([]);

  const said = [before, login, after, logout].map(({ output }) => output()).join('') + readFileSync(trail, 'utf8');
  for (const secret of [stored.access_token, stored.refresh_token ?? 'none']) expect(said).not.toContain(secret);
});

it('ends at Ctrl-C and leaves nothing [mcp.oauth.login.command]', async () => {
  const server = await startProtectedServer();
  const state = tempDir();
  const records = join(state, 'mcp.d');
  writeRecord(records, server.url);
  const login = run('spear', ['servers', 'login', 'tracker', '--no-browser', '--mcp-dir', records], state);
  await login.address;
  login.child.kill('SIGINT');
  expect(await login.code).toBe(1);
  expect(login.output()).toContain('interrupted; no token was stored');
  expect(readdirSync(state)).toEqual(['mcp.d']);
});

it('says where nobody can log in', async () => {
  const state = tempDir();
  const records = join(state, 'mcp.d');
  mkdirSync(records);
  const record = { server_id: 'open', transport: 'streamable_http', http: { url: 'https://a.example/' } };
  writeFileSync(join(records, 'open.json'), JSON.stringify(record));
  const login = run('spear', ['servers', 'login', 'open', '--mcp-dir', records], state);
  expect(await login.code).toBe(1);
  expect(login.output()).toContain('open: has no login');
  const missing = run('spear', ['servers', 'login', 'other', '--mcp-dir', records], state);
  expect(await missing.code).toBe(1);
  expect(missing.output()).toContain('no valid server other');
  expect(await run('spear', ['servers', 'logout', 'open'], state).code).toBe(1);
});
