import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { knownSecrets } from '../../../../../src/server/secrets/redactor.ts';
import { eraHas } from '../../../../support/server-era.ts';
import { call, httpRecord, openPool, textOf } from '../pool-samples.ts';
import { CLIENT_SECRET, type ProtectedServer, startProtectedServer } from './protected-server.ts';

const bySecret = { grant: 'client_credentials', client_id: 'by-secret', client_secret: 'env:CLIENT_SECRET' };
const variables = { CLIENT_SECRET };

function recordOf(server: ProtectedServer, oauth: Record<string, unknown> = bySecret) {
  return httpRecord('tracker', 'streamable_http', server.url, {}, { oauth: { issuer: server.issuer, ...oauth } });
}

const tokenRequests = ({ asked }: ProtectedServer) => asked.filter((each) => each === 'client_credentials').length;

describe('client credentials', () => {
  it.each([
    ['a secret', bySecret],
    ['a secret in the body', { ...bySecret, client_id: 'by-post', token_endpoint_auth_method: 'client_secret_post' }],
    ['a key', { grant: 'client_credentials', client_id: 'by-key', private_key: 'env:PRIVATE_KEY' }],
  ])('authenticated by %s obtain one token [mcp.oauth.client-credentials]', async (_name, oauth) => {
    const server = await startProtectedServer();
    const { pool } = openPool({ variables: { CLIENT_SECRET, PRIVATE_KEY: server.privateKey } });
    const record = recordOf(server, oauth);
    expect((await pool.listTools(record)).tools.map(({ name }) => name)).toContain('hello');
    const many = Array.from({ length: 20 }, () => textOf(call(pool, record, 'hello')));
    expect(new Set(await Promise.all(many))).toEqual(new Set(['hello']));
    expect(server.tokens.size).toBe(1);
    expect(tokenRequests(server)).toBe(1);
  });

  it('obtain one new token when the server rejects the old one, and repeat the calls [mcp.oauth.renewal]', async () => {
    const server = await startProtectedServer();
    const { pool } = openPool({ variables });
    const record = recordOf(server);
    expect(await textOf(call(pool, record, 'hello'))).toBe('hello');
    await server.revokeAccess();
    const many = Array.from({ length: 8 }, () => textOf(call(pool, record, 'hello')));
    expect(new Set(await Promise.all(many))).toEqual(new Set(['hello']));
    expect(tokenRequests(server)).toBe(2);
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
  });

  if (eraHas('oldTransport'))
    it('authorize every request of the HTTP+SSE transport', async () => {
      const server = await startProtectedServer({ sse: true });
      const { pool } = openPool({ variables });
      const oauth = { ...bySecret, issuer: server.issuer };
      const record = httpRecord('tracker', 'http_sse_legacy', server.url, {}, { oauth });
      expect(await textOf(call(pool, record, 'hello'))).toBe('hello');
      await server.revokeAccess();
      expect(await textOf(call(pool, record, 'hello'))).toBe('hello');
      expect(tokenRequests(server)).toBe(2);
    });

  it('renew the token before it expires', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const server = await startProtectedServer({ accessTokenSeconds: 100 });
    const { pool } = openPool({ variables });
    const record = recordOf(server);
    expect(await textOf(call(pool, record, 'hello'))).toBe('hello');
    vi.setSystemTime(Date.now() + 79_000);
    expect(await textOf(call(pool, record, 'hello'))).toBe('hello');
    expect(tokenRequests(server)).toBe(1);
    vi.setSystemTime(Date.now() + 2_000);
    expect(await textOf(call(pool, record, 'hello'))).toBe('hello');
    expect(tokenRequests(server)).toBe(2);
    expect(server.refused).toBe(1);
  });

  it('obtain a wider scope if a call needs it and the record lists no scopes [mcp.oauth.step-up]', async () => {
    const server = await startProtectedServer();
    const { pool } = openPool({ variables });
    expect(await textOf(call(pool, recordOf(server), 'admin'))).toBe('done');
    expect(tokenRequests(server)).toBe(2);
    const bound = openPool({ variables }).pool;
    const { error } = await call(bound, recordOf(server, { ...bySecret, scopes: ['tools.read'] }), 'admin');
    expect(error).toMatchObject({ code: 'mcp_unavailable', retryable: false });
    expect(error?.message).toContain('insufficient_scope: required scope tools.admin');
  });
});

describe('no token is obtained', () => {
  const failure = async (server: ProtectedServer, oauth: Record<string, unknown> = bySecret, values = variables) => {
    const { pool, log } = openPool({ variables: values });
    const { error } = await call(pool, recordOf(server, oauth), 'hello');
    expect(JSON.stringify([error, log])).not.toContain(CLIENT_SECRET);
    return error;
  };

  it('with a wrong secret', async () => {
    const server = await startProtectedServer();
    const wrong = { CLIENT_SECRET: 'something-else-entirely' };
    const error = await failure(server, bySecret, wrong);
    expect(error).toMatchObject({ code: 'mcp_unavailable', retryable: false });
    expect(error?.message).toMatch(
      /^server "tracker": could not get a token: invalid_client.*check http\.oauth of the server$/s,
    );
  });

  it('if the server names another issuer than the record; only the issuer of the record gets the secret [mcp.oauth.issuer]', async () => {
    const other = await startProtectedServer();
    const server = await startProtectedServer({ namedIssuer: other.issuer });
    const error = await failure(server);
    expect(error?.message).toContain(`names the authorization server "${other.issuer}", but http.oauth.issuer is`);
    expect(other.asked).toEqual([]);
    expect(error?.retryable).toBe(false);
  });

  it('if the metadata of the server names another resource [mcp.oauth.resource]', async () => {
    const server = await startProtectedServer({ namedResource: 'https://elsewhere.example/mcp' });
    expect((await failure(server))?.message).toContain('resource mismatch');
    expect(tokenRequests(server)).toBe(0);
  });

  it('if the egress rules deny the authorization server [mcp.oauth.egress]', async () => {
    const server = await startProtectedServer({ namedIssuer: 'https://169.254.169.254' });
    const error = await failure(server, { ...bySecret, issuer: 'https://169.254.169.254' });
    expect(error?.code).toBe('mcp_policy_denied');
    expect(error?.message).toContain('address 169.254.169.254 is a link-local address');
  });

  it('with an invalid private key', async () => {
    const server = await startProtectedServer();
    const oauth = { grant: 'client_credentials', client_id: 'by-key', private_key: 'env:CLIENT_SECRET' };
    expect((await failure(server, oauth))?.message).toContain('does not refer to a private key in PEM format');
  });
});

it('the redactor knows a token as soon as it is obtained [mcp.oauth.hidden]', async () => {
  const server = await startProtectedServer();
  const { pool, log } = openPool({ variables });
  const outcome = await call(pool, recordOf(server), 'whoami');
  const [token = ''] = server.tokens;
  expect(token.length).toBeGreaterThan(20);
  expect(knownSecrets.redact(`a ${token} b`)).toBe('a [redacted] b');
  expect(outcome.json).toContain('[redacted]');
  expect(JSON.stringify([outcome, log])).not.toContain(token);
});
