import { afterEach, describe, expect, it } from 'vitest';
import { startTestSms, stopAll, type TestSms } from '../../../registry/running-sms.ts';
import { callMethod, rawGrpc } from '../raw-grpc.ts';
import {
  type FakeIssuer,
  type FakeKey,
  makeKey,
  published,
  signed,
  signedBySecret,
  startFakeIssuer,
  unsigned,
} from './fake-issuer.ts';
import { usual } from './oidc-config.ts';

afterEach(stopAll);

const me = '/admin/api/me';
const now = () => Math.floor(Date.now() / 1000);

async function start(
  more = '',
): Promise<{ sms: TestSms; fake: FakeIssuer; key: FakeKey; claims: Record<string, unknown> }> {
  const fake = await startFakeIssuer();
  const key = makeKey('one');
  fake.keys = [published(key)];
  const sms = await startTestSms({ oidc: usual(fake.issuer, more) });
  const claims = {
    iss: fake.issuer,
    aud: 'spear',
    sub: 'alice',
    groups: ['sre'],
    team: '*',
    iat: now(),
    exp: now() + 600,
  };
  return { sms, fake, key, claims };
}

const ask = async (sms: TestSms, token: string) => (await sms.http('GET', me, { token })).status;

describe('a token of the issuer', () => {
  it.each(['RS256', 'ES256', 'EdDSA'] as const)('signed by %s is authenticated [people.oidc.api]', async (alg) => {
    const { sms, fake, claims } = await start();
    const key = makeKey('two', alg);
    fake.keys = [published(makeKey('one')), published(key), { kty: 'oct', k: 'AAAA', kid: 'two' }];
    const { status, body } = await sms.http('GET', me, { token: signed(key, claims) });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: 'oidc:alice',
      roles: ['operator', 'approver'],
      namespace: '*',
      read_journals: false,
    });
    expect(
      await callMethod(rawGrpc(sms.sms.grpc), 'sms.McpRegistryService/DeleteMcpServer', {
        authorization: `Bearer ${signed(key, claims)}`,
      }),
    ).toBe(5);
  });

  it('that is forged or invalid is rejected [people.oidc.refused]', async () => {
    const { sms, fake, key, claims } = await start();
    const stranger = makeKey('one');
    const pem = key.publicKey.export({ type: 'spki', format: 'pem' });
    const good = signed(key, claims);
    const [head = '', body = '', signature = ''] = good.split('.');
    const other = Buffer.from(JSON.stringify({ ...claims, groups: ['spear-admins'] })).toString('base64url');
    const der = (await import('node:crypto')).sign('sha256', Buffer.from(`${head}.${body}`), key.privateKey);
    const bad: Record<string, string> = {
      'alg none': unsigned(claims, 'none'),
      'alg none with a signature': unsigned(claims, 'none', signature),
      'alg None': unsigned(claims, 'None', signature),
      'HS256 with the public key': signedBySecret(pem, claims, { kid: 'one' }),
      'HS256 with the published key': signedBySecret(JSON.stringify(published(key)), claims, { kid: 'one' }),
      'another key of the same name': signed(stranger, claims),
      'a key that it brings itself': signed(stranger, claims, { jwk: published(stranger), jku: `${fake.issuer}/keys` }),
      'RS256 by name, ES256 by key': signed(key, claims, { alg: 'RS256' }),
      'other claims under the same signature': `${head}.${other}.${signature}`,
      'a signature in another form': `${head}.${body}.${der.toString('base64url')}`,
      'an empty signature': `${head}.${body}.`,
      'a fourth part': `${good}.x`,
      'another issuer': signed(key, { ...claims, iss: 'https://evil.example' }),
      'an issuer with a slash more': signed(key, { ...claims, iss: `${fake.issuer}/` }),
      'another audience': signed(key, { ...claims, aud: 'another-app' }),
      'no audience': signed(key, { ...claims, aud: undefined }),
      'an audience that only looks like it': signed(key, { ...claims, aud: ['spear2', { spear: 1 }] }),
      'over for long': signed(key, { ...claims, exp: now() - 120 }),
      'no end': signed(key, { ...claims, exp: undefined }),
      'an end that is no number': signed(key, { ...claims, exp: '9999999999' }),
      'not yet': signed(key, { ...claims, nbf: now() + 3_600 }),
      'of the future': signed(key, { ...claims, iat: now() + 3_600 }),
      'what must be understood': signed(key, claims, { crit: ['x'], x: 1 }),
      'a logout token': signed(key, { ...claims, events: {} }),
      'another type': signed(key, claims, { typ: 'secevent+jwt' }),
      'no name': signed(key, { ...claims, sub: undefined }),
      'a name with a control character': signed(key, { ...claims, sub: 'a\u001b[31mb' }),
      'no namespace': signed(key, { ...claims, team: undefined }),
      'two namespaces': signed(key, { ...claims, team: ['team-a', '*'] }),
      'a namespace that is none': signed(key, { ...claims, team: 'Team A' }),
    };
    const outcomes = Object.fromEntries(
      await Promise.all(Object.entries(bad).map(async ([name, token]) => [name, await ask(sms, token)])),
    );
    expect(outcomes).toEqual(Object.fromEntries(Object.keys(bad).map((name) => [name, 401])));
    expect(await ask(sms, good)).toBe(200);
    // Clocks may differ by one minute.
    expect(await ask(sms, signed(key, { ...claims, exp: now() - 20 }))).toBe(200);
    const late = await sms.http('GET', me, { token: bad['over for long'] ?? '' });
    expect(late.body.detail).toContain('this token has expired');
  });

  it('has the roles of the mapping, and no others [people.oidc.mapping]', async () => {
    const { sms, key, claims } = await start('journal_values = ["auditors"]');
    const as = async (more: object) => (await sms.http('GET', me, { token: signed(key, { ...claims, ...more }) })).body;
    expect(await as({ groups: ['spear-admins', 'auditors', 'x'] })).toMatchObject({
      roles: ['admin'],
      read_journals: true,
    });
    expect(await as({ groups: 'sre', team: 'team-a' })).toMatchObject({
      roles: ['operator', 'approver'],
      namespace: 'team-a',
    });
    for (const groups of [[], ['admin'], ['constructor', '__proto__'], { sre: true }, undefined, [['sre']]]) {
      expect(await as({ groups })).toMatchObject({
        status: 403,
        detail: expect.stringContaining('the role of "oidc:alice" is none'),
      });
    }
  });

  it('by an unknown key causes at most one request to the issuer per interval [people.oidc.rotation]', async () => {
    const { sms, fake, key, claims } = await start();
    const asked = () => fake.asked.filter((path) => path === '/keys').length;
    await Promise.all(Array.from({ length: 20 }, (_, number) => ask(sms, signed(key, { ...claims, jti: number }))));
    expect(asked()).toBe(1);
    const next = makeKey('two');
    fake.keys = [published(next)];
    // Soon after the last response no request is made, whatever keys tokens name.
    for (let number = 0; number < 20; number++) expect(await ask(sms, signed(makeKey(`k${number}`), claims))).toBe(401);
    expect(asked()).toBe(1);
  });
});

describe('an unreachable issuer', () => {
  it('fails its tokens with 503, and other tokens work [people.oidc.away]', async () => {
    const fake = await startFakeIssuer();
    await fake.stop();
    const key = makeKey('one');
    const sms = await startTestSms({ oidc: usual(fake.issuer) });
    const token = signed(key, {
      iss: fake.issuer,
      aud: 'spear',
      sub: 'alice',
      groups: ['sre'],
      team: '*',
      exp: now() + 60,
    });
    const { status, body, headers } = await sms.http('GET', me, { token });
    expect([status, body.type, headers.get('retry-after')]).toEqual([
      503,
      'urn:spear:problem:issuer-unavailable',
      '10',
    ]);
    expect((await sms.http('GET', me)).status).toBe(200);
    expect(sms.logged.join('\n')).toMatch(/warn issuer_unavailable .*ECONNREFUSED/);
    const code = await callMethod(rawGrpc(sms.sms.grpc), 'sms.McpRegistryService/ListMcpServers', {
      authorization: `Bearer ${token}`,
    });
    expect(code).toBe(14);
    const login = await sms.http('GET', `/auth/login?challenge=${'0'.repeat(64)}`, { token: null });
    expect(login.status).toBe(503);
  });

  it('at an address that the egress rules deny gets no request [people.oidc.away]', async () => {
    const fake = await startFakeIssuer();
    const key = makeKey('one');
    fake.keys = [published(key)];
    const egress = { allowHosts: null, allowAddresses: [] };
    const sms = await startTestSms({ oidc: usual(fake.issuer), egress });
    expect(await ask(sms, signed(key, { iss: fake.issuer, aud: 'spear', sub: 'a', team: '*', exp: now() + 60 }))).toBe(
      503,
    );
    expect(fake.asked).toEqual([]);
    expect(sms.logged.join('\n')).toContain('may not connect to');
  });
});
