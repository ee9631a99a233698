import { describe, expect, it, onTestFinished } from 'vitest';
import { login } from '../../../../../src/agent/mcp/client/oauth/login.ts';
import { LoginStore } from '../../../../../src/agent/mcp/client/oauth/login-store.ts';
import { loginsDirectory } from '../../../../../src/agent/mcp/client/pool-options.ts';
import { EgressRules } from '../../../../../src/server/egress/egress.ts';
import { createHttpClient } from '../../../../../src/server/egress/http-client.ts';
import type { McpOAuth } from '../../../../../src/server/records/server.ts';
import { httpRecord, tempDir } from '../pool-samples.ts';
import { challenge, type HostileServer, json, startHostileServer } from './hostile-server.ts';
import { consentInBrowser, type ProtectedServer, startProtectedServer } from './protected-server.ts';

// A hostile MCP server and its authorization server beside a real one (oidc-provider), which the user trusts. Whatever
// the hostile ones name, no code, verifier or token of the real one reaches them.

/** Answers JSON by path; `/mcp` with a challenge. */
const evil = (answers: (origin: string) => Readonly<Record<string, unknown>>, header = 'Bearer') =>
  startHostileServer((origin) => {
    const byPath = Object.entries(answers(origin)).map(([path, value]) => [path, json(value)]);
    return { '/mcp': challenge(header), ...Object.fromEntries(byPath) };
  });

const RESOURCE = '/.well-known/oauth-protected-resource/mcp';
const METADATA = '/.well-known/oauth-authorization-server';
const metadata = (origin: string, more: object = {}) => ({
  issuer: origin,
  authorization_endpoint: `${origin}/authorize`,
  token_endpoint: `${origin}/token`,
  registration_endpoint: `${origin}/register`,
  response_types_supported: ['code'],
  code_challenge_methods_supported: ['S256'],
  ...more,
});
const token = { access_token: 'of-evil', token_type: 'Bearer' };

async function logIn(url: string, show: (address: URL) => void, signal = AbortSignal.timeout(45_000)) {
  const record = httpRecord('tracker', 'streamable_http', url, {}, { oauth: { grant: 'authorization_code' } });
  const http = await createHttpClient(new EgressRules({ allowAddresses: ['loopback'] }));
  onTestFinished(() => http.close());
  const stateDir = tempDir();
  const logins = new LoginStore(loginsDirectory(stateDir));
  const stored = await login({
    serverId: 'tracker',
    target: { url: new URL(url), headers: {} },
    transport: 'streamable_http',
    oauth: record.http?.oauth as McpOAuth,
    proof: { secret: null, privateKey: null },
    library: await import('@modelcontextprotocol/client'),
    fetch: http.fetch,
    logins,
    wallClock: Date.now,
    show,
    port: 0,
    signal,
  }).catch((error: unknown) => error as Error);
  return { outcome: stored, kept: logins.read('tracker', new URL(url)) };
}

/** A client of the real issuer, registered by the attacker for any loopback redirect. */
async function clientAt({ issuer }: ProtectedServer, redirect = 'http://127.0.0.1/callback'): Promise<string> {
  const answer = await fetch(`${issuer}/reg`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      redirect_uris: [redirect],
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    }),
  });
  return ((await answer.json()) as { client_id: string }).client_id;
}

const tokenRequests = ({ seen }: HostileServer) => seen.filter((line) => line.startsWith('/token'));

describe('a hostile server beside a real issuer', () => {
  it('gets no code of the real issuer by naming its authorization endpoint [mcp.oauth.mix-up]', async () => {
    const real = await startProtectedServer();
    const clientId = await clientAt(real);
    const hostile = await evil((origin) => ({
      [RESOURCE]: { resource: `${origin}/mcp`, authorization_servers: [origin] },
      [METADATA]: metadata(origin, { authorization_endpoint: `${real.issuer}/auth` }),
      '/register': { client_id: clientId, redirect_uris: ['http://127.0.0.1/callback'] },
      '/token': token,
    }));
    const { outcome, kept } = await logIn(`${hostile.origin}/mcp`, (address) => {
      expect(address.origin).toBe(real.issuer);
      // A resource that the real issuer does not know would be refused there; the attacker's page leaves it out.
      const asked = new URL(address);
      asked.searchParams.delete('resource');
      asked.searchParams.set('scope', 'openid');
      void consentInBrowser(asked);
    });
    expect(outcome).toBeInstanceOf(Error);
    expect(String(outcome)).toMatch(/issuer mismatch/i);
    expect([tokenRequests(hostile), kept]).toEqual([[], null]);
  });

  it('gets no code if the real issuer supports iss and the attacker removes it [mcp.oauth.mix-up]', async () => {
    const real = await startProtectedServer();
    for (const iss of [
      null,
      '',
      `${real.issuer}/x`,
      real.issuer.toUpperCase(),
      'null',
      `${real.issuer}@evil.example`,
    ]) {
      const { outcome, kept } = await logIn(real.url, (address) => {
        const { redirect_uri, state } = Object.fromEntries(address.searchParams);
        const answer = new URLSearchParams({ code: 'stolen', state: state ?? '', ...(iss === null ? {} : { iss }) });
        void fetch(`${redirect_uri}?${answer}`);
      });
      expect([iss, outcome instanceof Error, String(outcome)]).toEqual([
        iss,
        true,
        expect.stringMatching(/issuer mismatch|iss/i),
      ]);
      expect([kept, real.asked.includes('/token')]).toEqual([null, false]);
    }
  });

  it('cannot impersonate the real issuer or the real server [mcp.oauth.mix-up]', async () => {
    const real = await startProtectedServer();
    const { host } = new URL(real.url);
    const claims: readonly ((origin: string) => Readonly<Record<string, unknown>>)[] = [
      // Metadata of another issuer, at the hostile place.
      ...[real.issuer, `${real.issuer}/`, '', 'https://other.example'].map((issuer) => (origin: string) => ({
        [RESOURCE]: { resource: `${origin}/mcp`, authorization_servers: [origin] },
        [METADATA]: metadata(origin, { issuer }),
      })),
      // The resource of the real server: a token for it would be sent to the hostile one.
      ...[real.url, `http://${host}`, `http://127.0.0.1@${host}/mcp`, `${real.url}/`, `${real.url}?x`].map(
        (resource) => () => ({ [RESOURCE]: { resource, authorization_servers: [real.issuer] } }),
      ),
      // Authorization servers that only look local.
      ...[
        'http://127.0.0.1.evil.example',
        'http://localhost.evil.example',
        'http://127.0.0.1@evil.example',
        'ftp://127.0.0.1',
        'javascript:alert(1)',
        'http://[::ffff:10.0.0.1]',
      ].map((server) => (origin: string) => ({
        [RESOURCE]: { resource: `${origin}/mcp`, authorization_servers: [server] },
      })),
      // Endpoints that a browser or this client must not be sent to.
      ...['http://evil.example/x', 'javascript:alert(1)', 'file:///etc/passwd'].flatMap((address) =>
        ['authorization_endpoint', 'token_endpoint', 'registration_endpoint'].map((field) => (origin: string) => ({
          [RESOURCE]: { resource: `${origin}/mcp`, authorization_servers: [origin] },
          [METADATA]: metadata(origin, { [field]: address }),
        })),
      ),
    ];
    for (const [index, answers] of claims.entries()) {
      const hostile = await evil((origin) => ({
        '/register': { client_id: 'x', redirect_uris: [] },
        '/token': token,
        ...answers(origin),
      }));
      // Metadata that is none at all leaves a server that is its own authorization server: its page may be shown.
      const shown: string[] = [];
      const enough = new AbortController();
      const show = (address: URL) => {
        shown.push(address.origin);
        enough.abort(new Error('enough was seen'));
      };
      const { outcome, kept } = await logIn(`${hostile.origin}/mcp`, show, enough.signal);
      expect([index, outcome instanceof Error, kept]).toEqual([index, true, null]);
      expect(shown.filter((origin) => origin !== hostile.origin)).toEqual([]);
      expect(tokenRequests(hostile)).toEqual([]);
    }
    // The real issuer was asked for nothing but its metadata.
    expect(real.asked.filter((path) => !path.startsWith('/.well-known/'))).toEqual([]);
  });
});
