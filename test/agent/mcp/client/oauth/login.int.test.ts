import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type LoginOptions, login } from '../../../../../src/agent/mcp/client/oauth/login.ts';
import { LoginStore, type StoredLogin } from '../../../../../src/agent/mcp/client/oauth/login-store.ts';
import { loginsDirectory } from '../../../../../src/agent/mcp/client/pool-options.ts';
import { EgressRules } from '../../../../../src/server/egress/egress.ts';
import { createHttpClient } from '../../../../../src/server/egress/http-client.ts';
import type { McpOAuth } from '../../../../../src/server/records/server.ts';
import { call, httpRecord, openPool, tempDir, textOf } from '../pool-samples.ts';
import { consentInBrowser, type ProtectedServer, startProtectedServer } from './protected-server.ts';

const byPerson = { grant: 'authorization_code' };

function recordOf(server: ProtectedServer, oauth: Record<string, unknown> = byPerson) {
  return httpRecord('tracker', 'streamable_http', server.url, {}, { oauth });
}

async function logIn(
  server: ProtectedServer,
  stateDir: string,
  more: Partial<LoginOptions> & { readonly egress?: readonly string[] } = {},
): Promise<StoredLogin> {
  const { egress = ['loopback'], ...options } = more;
  const record = recordOf(server);
  const http = await createHttpClient(new EgressRules({ allowAddresses: egress }));
  onTestFinished(() => http.close());
  return login({
    serverId: 'tracker',
    target: { url: new URL(server.url), headers: {} },
    transport: 'streamable_http',
    oauth: record.http?.oauth as McpOAuth,
    proof: { secret: null, privateKey: null },
    library: await import('@modelcontextprotocol/client'),
    fetch: http.fetch,
    logins: new LoginStore(loginsDirectory(stateDir)),
    wallClock: Date.now,
    show: (address) => void consentInBrowser(address),
    port: 0,
    signal: AbortSignal.timeout(45_000),
    ...options,
  });
}

const refreshes = ({ asked }: ProtectedServer) => asked.filter((each) => each === 'refresh_token').length;
const fileOf = (stateDir: string) => join(loginsDirectory(stateDir), 'tracker.json');

describe('a login', () => {
  it('registers a client, returns through the loopback redirect, and stores tokens for runs [mcp.oauth.login]', async () => {
    const server = await startProtectedServer();
    const stateDir = tempDir();
    const addresses: URL[] = [];
    const stored = await logIn(server, stateDir, {
      show: (address) => {
        addresses.push(address);
        void consentInBrowser(address);
      },
    });
    expect(Object.fromEntries(addresses[0]?.searchParams ?? [])).toMatchObject({
      response_type: 'code',
      code_challenge_method: 'S256',
      resource: server.url,
      scope: expect.stringContaining('tools.read'),
      redirect_uri: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/callback$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(stored.refresh_token).not.toBeNull();
    expect(statSync(fileOf(stateDir)).mode & 0o777).toBe(0o600);
    expect(statSync(loginsDirectory(stateDir)).mode & 0o777).toBe(0o700);
    const { pool, log } = openPool({ stateDir });
    expect(await textOf(call(pool, recordOf(server), 'hello'))).toBe('hello');
    const shown = JSON.stringify([await call(pool, recordOf(server), 'whoami'), log]);
    for (const secret of [stored.access_token, stored.refresh_token ?? '']) expect(shown).not.toContain(secret);
  });

  it('ignores redirects with another state, and stores nothing without a valid one [mcp.oauth.login.state]', async () => {
    const server = await startProtectedServer();
    const stateDir = tempDir();
    const interrupt = new AbortController();
    const statuses: number[] = [];
    const failed = logIn(server, stateDir, {
      signal: interrupt.signal,
      show: async (address) => {
        const redirect = address.searchParams.get('redirect_uri');
        for (const answer of ['?code=stolen&state=wrong', '?code=stolen', '/../other']) {
          statuses.push((await fetch(`${redirect}${answer}`)).status);
        }
        interrupt.abort(new Error('interrupted'));
      },
    });
    await expect(failed).rejects.toThrow('interrupted');
    expect(statuses).toEqual([400, 400, 400]);
    expect(readdirSync(stateDir)).toEqual([]);
  });

  it('reports that the user denied it', async () => {
    const server = await startProtectedServer();
    const failed = logIn(server, tempDir(), {
      show: (address) => {
        const { redirect_uri, state } = Object.fromEntries(address.searchParams);
        const issuer = encodeURIComponent(server.issuer);
        void fetch(`${redirect_uri}?error=access_denied&error_description=not+you&state=${state}&iss=${issuer}`);
      },
    });
    await expect(failed).rejects.toThrow('the authorization server returned no code: access_denied: not you');
  });

  it('rejects a redirect of another issuer [mcp.oauth.issuer]', async () => {
    const server = await startProtectedServer();
    const failed = logIn(server, tempDir(), {
      show: (address) => {
        const { redirect_uri, state } = Object.fromEntries(address.searchParams);
        void fetch(`${redirect_uri}?code=x&state=${state}&iss=https%3A%2F%2Fother.example`);
      },
    });
    await expect(failed).rejects.toThrow(/Issuer mismatch/);
  });

  it('does not connect to addresses that the egress rules deny [mcp.oauth.egress]', async () => {
    const server = await startProtectedServer();
    await expect(logIn(server, tempDir(), { egress: [] })).rejects.toMatchObject({
      cause: { message: expect.stringContaining('is a loopback address that this node may not connect to') },
    });
    expect(server.asked).toEqual([]);
  });
});

describe('a run', () => {
  const needsLogin = (why: string) => `server "tracker" needs a login: ${why}; run: spear servers login tracker`;

  it('without a login fails and names the login command [mcp.oauth.login.missing]', async () => {
    const server = await startProtectedServer();
    const { pool } = openPool();
    const { error } = await call(pool, recordOf(server), 'hello');
    expect(error).toMatchObject({ code: 'mcp_unavailable', retryable: false });
    expect(error?.message).toBe(needsLogin('this machine has no login for it'));
    expect(server.tokens.size).toBe(0);
  });

  it('does not give the login to another server under the same id [mcp.oauth.login.bound]', async () => {
    const [server, other] = [await startProtectedServer(), await startProtectedServer()];
    const stateDir = tempDir();
    await logIn(server, stateDir);
    const { pool } = openPool({ stateDir });
    const { error } = await call(pool, recordOf(other), 'hello');
    expect(error?.message).toContain('needs a login');
    expect(other.tokens.size).toBe(0);
    const elsewhere = recordOf(server, { ...byPerson, issuer: 'https://login.example' });
    expect((await call(openPool({ stateDir }).pool, elsewhere, 'hello')).error?.message).toContain(
      'the login was made with another authorization server',
    );
  });

  it('refreshes the token once for all calls before it expires, and stores the new one [mcp.oauth.renewal]', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const server = await startProtectedServer({ accessTokenSeconds: 100 });
    const stateDir = tempDir();
    const before = await logIn(server, stateDir);
    const { pool } = openPool({ stateDir });
    expect(await textOf(call(pool, recordOf(server), 'hello'))).toBe('hello');
    expect(refreshes(server)).toBe(0);
    vi.setSystemTime(Date.now() + 90_000);
    const many = Array.from({ length: 8 }, () => textOf(call(pool, recordOf(server), 'hello')));
    expect(new Set(await Promise.all(many))).toEqual(new Set(['hello']));
    expect(refreshes(server)).toBe(1);
    const after = JSON.parse(readFileSync(fileOf(stateDir), 'utf8')) as StoredLogin;
    expect(after.access_token).not.toBe(before.access_token);
    expect(after.refresh_token).not.toBe(before.refresh_token);
    expect(readdirSync(loginsDirectory(stateDir))).toEqual(['tracker.json']);
  });

  it('uses the token that another process refreshed [mcp.oauth.renewal]', async () => {
    const server = await startProtectedServer();
    const stateDir = tempDir();
    await logIn(server, stateDir);
    const pools = [openPool({ stateDir }).pool, openPool({ stateDir }).pool];
    for (const pool of pools) expect(await textOf(call(pool, recordOf(server), 'hello'))).toBe('hello');
    await server.revokeAccess();
    const again = pools.map((pool) => textOf(call(pool, recordOf(server), 'hello')));
    expect(await Promise.all(again)).toEqual(['hello', 'hello']);
    expect(refreshes(server)).toBe(1);
  });

  it('asks for a new login if the refresh token is revoked [mcp.oauth.login.missing]', async () => {
    const server = await startProtectedServer();
    const stateDir = tempDir();
    const stored = await logIn(server, stateDir);
    const { pool, log } = openPool({ stateDir });
    expect(await textOf(call(pool, recordOf(server), 'hello'))).toBe('hello');
    await server.revokeGrants();
    const { error } = await call(pool, recordOf(server), 'hello');
    expect(error?.message).toBe(needsLogin('its login has expired or was revoked'));
    expect(JSON.stringify([error, log])).not.toContain(stored.refresh_token);
  });

  it('reports a missing scope, which the next login requests [mcp.oauth.step-up]', async () => {
    const server = await startProtectedServer();
    const stateDir = tempDir();
    await logIn(server, stateDir);
    const { pool } = openPool({ stateDir });
    const { error } = await call(pool, recordOf(server), 'admin');
    expect(error?.message).toBe(needsLogin('insufficient_scope: required scope tools.admin'));
    const wider = await logIn(server, stateDir);
    expect(wider.scope?.split(' ')).toEqual(expect.arrayContaining(['tools.read', 'tools.admin']));
    expect(await textOf(call(pool, recordOf(server), 'admin'))).toBe('done');
  });

  it('does not use a login file that other users can read [mcp.oauth.login.file]', async () => {
    const server = await startProtectedServer();
    const stateDir = tempDir();
    mkdirSync(loginsDirectory(stateDir), { mode: 0o700 });
    writeFileSync(fileOf(stateDir), '{}', { mode: 0o644 });
    const { error } = await call(openPool({ stateDir }).pool, recordOf(server), 'hello');
    expect(error?.message).toContain('is accessible to other users (mode 644)');
  });
});
