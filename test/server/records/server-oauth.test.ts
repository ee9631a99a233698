import { describe, expect, it } from 'vitest';
import { maskRecord } from '../../../src/server/records/mask.ts';
import { parseRecord } from '../../../src/server/records/server.ts';
import { recordToWire, upsertToInput, wireToInput } from '../../../src/server/records/wire.ts';
import { referencedNames } from '../../../src/server/secrets/references.ts';
import { sampleRecord } from './server-samples.ts';

const machine = { grant: 'client_credentials', client_id: 'me', client_secret: 'env:MCP_SECRET' };
const url = 'https://a.example/mcp';

function parse(oauth: unknown, http: Record<string, unknown> = {}) {
  const input = { server_id: 'a', transport: 'streamable_http', http: { url, oauth, ...http }, allowed_tools: ['*'] };
  return parseRecord(input, { strict: true });
}

function issuesOf(oauth: unknown, http: Record<string, unknown> = {}): string[] {
  const parsed = parse(oauth, http);
  return parsed.ok ? [] : parsed.issues.map(({ path, message }) => `${path} ${message}`);
}

const sample = (oauth: unknown = machine) =>
  sampleRecord('a', { transport: 'streamable_http', stdio: undefined, http: { url, oauth } });

it('http.oauth configures how a token is requested [mcp.oauth.record]', () => {
  const parsed = parse({ ...machine, scopes: ['read'], issuer: 'https://login.example/' });
  expect(parsed).toMatchObject({ ok: true, warnings: [] });
  expect(parsed.ok && parsed.record.http?.oauth).toEqual({
    grant: 'client_credentials',
    client_id: 'me',
    client_secret: 'env:MCP_SECRET',
    private_key: null,
    token_endpoint_auth_method: null,
    scopes: ['read'],
    issuer: 'https://login.example/',
    client_metadata_url: null,
  });
  expect(sampleRecord('b', { transport: 'streamable_http', stdio: undefined, http: { url } }).http?.oauth).toBeNull();
});

describe('a literal secret', () => {
  it.each(['client_secret', 'private_key'])('as %s is refused and not repeated [mcp.oauth.references]', (field) => {
    const literal = 'c4n4ry-s3cr3t-0123456789';
    const text = JSON.stringify(issuesOf({ ...machine, client_secret: undefined, [field]: literal }));
    expect(text).toContain(`http.oauth.${field} must be a reference, env:NAME or file:PATH, never the secret itself`);
    expect(text).not.toContain(literal);
  });
});

describe('a contradictory block is refused', () => {
  it.each([
    [{ grant: 'password' }, {}, 'http.oauth.grant must be "client_credentials" or "authorization_code"'],
    [{ ...machine, client_id: null }, {}, 'http.oauth.client_id is required with client_secret or private_key'],
    [{ ...machine, client_secret: null }, {}, 'http.oauth.client_secret or private_key is required'],
    [{ ...machine, private_key: 'file:/k' }, {}, 'http.oauth.private_key cannot be combined with client_secret'],
    [{ ...machine, token_endpoint_auth_method: 'private_key_jwt' }, {}, 'method needs private_key'],
    [{ ...machine, token_endpoint_auth_method: 'none' }, {}, 'is "none", but client_secret'],
    [machine, { auth_ref: 'env:A' }, 'http.oauth cannot be combined with auth_ref'],
    [machine, { headers: { authorization: 'x' } }, 'http.oauth cannot be combined with an Authorization header'],
    [machine, { url: 'https://u:p@a.example/' }, 'http.oauth cannot be combined with a user in the url'],
    [{ ...machine, issuer: 'http://login.example' }, {}, 'http.oauth.issuer must start with https://'],
    [{ ...machine, issuer: 'https://u:p@login.example' }, {}, 'must not contain a user name or password'],
    [{ ...machine, scopes: ['a b'] }, {}, 'http.oauth.scopes[0] must be one scope'],
    [{ ...machine, secret: 'x' }, {}, 'http.oauth.secret is not a field of a server'],
  ])('%o with %o', (oauth, http, message) => {
    expect(issuesOf(oauth, http).join('\n')).toContain(message);
  });
});

it('warns if the server would choose the authorization server that gets the secret', () => {
  const parsed = parse(machine);
  expect(parsed.ok && parsed.warnings).toEqual([
    { path: 'http.oauth.issuer', message: expect.stringContaining('the server decides') },
  ]);
});

it('its references are recognized and not masked', () => {
  expect(referencedNames(sample())).toContain('MCP_SECRET');
  expect(maskRecord(sample()).http?.oauth?.client_secret).toBe('env:MCP_SECRET');
});

describe('over the wire', () => {
  it('round-trips unchanged', () => {
    const record = sample({ ...machine, scopes: ['read', 'write'], issuer: 'https://login.example' });
    const back = parseRecord(wireToInput(recordToWire(record)), { strict: true });
    expect(back.ok && back.record).toEqual(record);
  });

  it('is kept by an upsert of an older client, and removed by an empty message [mcp.oauth.older-clients]', () => {
    const stored = sample();
    const { oauth: _left, ...older } = recordToWire(stored);
    expect(upsertToInput(older, stored).http).toMatchObject({ url, oauth: { client_id: 'me' } });
    const wire = recordToWire(stored);
    if (wire.oauth === undefined) throw new Error('it has one');
    wire.oauth = { ...wire.oauth, grant: '', clientId: '', clientSecret: '', scopes: [] };
    const removed = parseRecord(upsertToInput(wire, stored), { strict: true });
    expect(removed.ok && removed.record.http?.oauth).toBeNull();
  });
});
