import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { fsRecord, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../../../registry/running-sms.ts';
import { selfSigned } from '../../../support/certificates.ts';
import { linesOf } from '../../audit/audit-samples.ts';
import { makeKey, published, signed, startFakeIssuer } from './fake-issuer.ts';
import { oidcOf, usual } from './oidc-config.ts';
import { browse, type RealIssuer, startRealIssuer } from './real-issuer.ts';

let real: RealIssuer;
beforeAll(async () => {
  real = await startRealIssuer();
});
afterAll(() => real.end());
afterEach(stopAll);

const me = '/admin/api/me';
const servers = '/admin/api/mcp/servers';

/** The secret of a page and its challenge. */
function pageSecret() {
  const secret = randomBytes(16).toString('hex');
  return { secret, challenge: createHash('sha256').update(secret).digest('hex') };
}

const codeOf = (url: URL) => /^#login=(.+)$/.exec(url.hash)?.[1] ?? '';
const exchange = (sms: TestSms, code: string, secret: string) =>
  sms.http('POST', '/auth/exchange', { token: null, json: { code, secret } });

async function logIn(sms: TestSms, user: string, returnTo = '/console/') {
  await real.become(user);
  const { secret, challenge } = pageSecret();
  const back = await browse(`${sms.sms.http}/auth/login?challenge=${challenge}&return_to=${returnTo}`);
  return { secret, back, code: codeOf(back.url) };
}

describe('a login at a real issuer, on loopback', () => {
  it('gives the page a session without a cookie [people.oidc.login]', async () => {
    const sms = await startTestSms({ oidc: usual(real.issuer) });
    expect((await sms.http('GET', '/auth/options', { token: null })).body).toEqual({
      login: true,
      session: 'token',
      auth: true,
    });
    const { secret, back, code } = await logIn(sms, 'bob');
    expect([back.url.origin, back.url.pathname]).toEqual([sms.sms.http, '/console/']);
    const got = await exchange(sms, code, secret);
    expect(got.headers.getSetCookie()).toEqual([]);
    expect(got.body).toMatchObject({
      name: 'oidc:bob',
      session: 'token',
      token: expect.stringMatching(/^sps_[0-9a-f]{64}$/),
    });
    const token = String(got.body.token);
    expect((await sms.http('GET', me, { token })).body).toMatchObject({
      name: 'oidc:bob',
      roles: ['operator', 'approver'],
      namespace: 'team-a',
    });
    // In clear no cookie counts.
    const cookie = { cookie: `__Host-spear-session=${token}`, 'x-spear-session': '1' };
    expect((await sms.http('GET', me, { token: null, headers: cookie })).status).toBe(401);
    const events = await fetch(`${sms.sms.http}/admin/api/mcp/events`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect((await sms.http('POST', '/auth/logout', { token })).body).toEqual({ ended: true });
    await events.text();
    expect((await sms.http('GET', me, { token })).status).toBe(401);
    await sms.sms.close();
    const lines = linesOf(sms.config.audit?.file ?? '');
    expect(lines.find(({ event }) => event === 'sms.login')).toMatchObject({
      actor: 'oidc:bob',
      role: 'operator,approver',
      namespace: 'team-a',
    });
    expect(JSON.stringify([lines, sms.logged])).not.toContain(token);
  });

  it('cannot be completed by another page, twice, or without a start [people.oidc.login]', async () => {
    const sms = await startTestSms({ oidc: usual(real.issuer) });
    const first = await logIn(sms, 'alice');
    expect((await exchange(sms, first.code, pageSecret().secret)).status).toBe(403);
    expect((await exchange(sms, first.code, first.secret)).status).toBe(403);
    const second = await logIn(sms, 'alice');
    expect((await exchange(sms, second.code, second.secret)).status).toBe(200);
    expect((await exchange(sms, second.code, second.secret)).status).toBe(403);
    for (const query of ['', '?code=x', '?code=x&state=y', '?error=access_denied&state=y']) {
      const answer = await sms.http('GET', `/auth/callback${query}`, { token: null });
      expect([answer.status, answer.body.type]).toEqual([403, 'urn:spear:problem:login-refused']);
    }
  });

  it('works for a client with a secret, which appears in no output [people.oidc.login]', async () => {
    const secret = 'canary-oidc-secret-0123456789';
    const lines = (
      reference: string,
    ) => `issuer = "${real.issuer}"\nclient_id = "spear-with-secret"\nclient_secret = "${reference}"
roles_claim = "groups"\nnamespace = "team-c"\n[oidc.roles]\neverybody = ["viewer"]\n`;
    const sms = await startTestSms({ oidc: oidcOf(lines('env:OIDC_SECRET'), { OIDC_SECRET: secret }) });
    const { secret: mine, code } = await logIn(sms, 'carol');
    const got = await exchange(sms, code, mine);
    const who = await sms.http('GET', me, { token: String(got.body.token) });
    expect(who.body).toMatchObject({ name: 'oidc:carol', roles: ['viewer'], namespace: 'team-c' });
    expect(JSON.stringify(sms.logged)).not.toContain(secret);
    const wrong = await startTestSms({
      oidc: oidcOf(lines('env:OIDC_SECRET'), { OIDC_SECRET: 'another-secret-0123456789' }),
    });
    const { back } = await logIn(wrong, 'carol');
    expect([back.status, back.text]).toEqual([403, expect.stringContaining('invalid_client')]);
  });

  it('is rejected if the issuer denies it or the user has no namespace [people.oidc.refused]', async () => {
    const sms = await startTestSms({ oidc: usual(real.issuer) });
    const refused = await logIn(sms, 'mallory');
    expect([refused.back.status, refused.back.text]).toEqual([403, expect.stringContaining('(access_denied)')]);
    expect(refused.back.text).not.toContain('script');
    const { back } = await logIn(sms, 'dave');
    expect([back.status, back.text]).toEqual([403, expect.stringContaining('has no user name or no namespace')]);
  });

  it('accepts a JWT access token of a program for the API [people.oidc.api]', async () => {
    const audience = 'https://spear.test/api';
    const sms = await startTestSms({ oidc: usual(real.issuer, `audiences = ["${audience}"]`) });
    const answer = await fetch(`${real.issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('machine:canary-oidc-secret-0123456789')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience, scope: 'runs' }),
    });
    const { access_token: token } = (await answer.json()) as { access_token: string };
    expect((await sms.http('GET', me, { token })).body).toMatchObject({ name: 'oidc:machine', namespace: 'team-a' });
  });
});

it('a login with a return path to another origin is rejected', async () => {
  const sms = await startTestSms({ oidc: usual(real.issuer) });
  const paths = [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    'javascript:alert(1)',
    '/a?b',
    '/%0d%0a',
    '',
  ];
  for (const path of paths) {
    const query = new URLSearchParams({ challenge: '0'.repeat(64), return_to: path });
    const { status } = await sms.http('GET', `/auth/login?${query}`, { token: null });
    expect([path, status]).toEqual([path, 400]);
  }
});

it('without an issuer there is no login', async () => {
  const sms = await startTestSms();
  expect((await sms.http('GET', '/auth/options', { token: null })).body).toEqual({
    login: false,
    session: 'token',
    auth: true,
  });
  const answer = await sms.http('GET', '/auth/login', { token: null });
  expect([answer.status, answer.body.type]).toEqual([404, 'urn:spear:problem:no-login']);
});

describe('with TLS', () => {
  const now = () => Math.floor(Date.now() / 1000);

  async function start() {
    const directory = temporaryDirectory();
    const tls = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') };
    const made = selfSigned();
    writeFileSync(tls.cert, made.cert);
    writeFileSync(tls.key, made.key, { mode: 0o600 });
    const fake = await startFakeIssuer();
    const key = makeKey('one');
    fake.keys = [published(key)];
    fake.idToken = (nonce) =>
      signed(key, {
        iss: fake.issuer,
        aud: 'spear',
        sub: 'bob',
        groups: ['spear-admins'],
        team: '*',
        nonce,
        exp: now() + 60,
      });
    const test = await startTestSms({ tls, oidc: usual(fake.issuer) });
    const call = (method: string, path: string, headers: Record<string, string> = {}, body = '') =>
      new Promise<{ status: number; headers: Record<string, string | string[] | undefined>; text: string }>(
        (resolve, reject) => {
          const sent = request(
            `${test.sms.http}${path}`,
            { method, headers, rejectUnauthorized: false },
            (response) => {
              let text = '';
              response.on('data', (chunk) => {
                text += chunk;
              });
              response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
            },
          );
          sent.on('error', reject);
          sent.end(body);
        },
      );
    return { test, fake, key, call };
  }

  async function cookieOf({ call }: Awaited<ReturnType<typeof start>>): Promise<string> {
    const { secret, challenge } = pageSecret();
    const begun = await call('GET', `/auth/login?challenge=${challenge}`);
    const answered = await fetch(String(begun.headers.location), { redirect: 'manual' });
    const { pathname, search } = new URL(answered.headers.get('location') ?? '');
    const back = await call('GET', `${pathname}${search}`);
    const code = codeOf(new URL(String(back.headers.location), 'https://x'));
    const got = await call(
      'POST',
      '/auth/exchange',
      { 'content-type': 'application/json' },
      JSON.stringify({ code, secret }),
    );
    expect(JSON.parse(got.text)).toEqual({ name: 'oidc:bob', expires_at_ms: expect.any(Number), session: 'cookie' });
    const [cookie = ''] = got.headers['set-cookie'] as string[];
    expect(cookie).toMatch(
      /^__Host-spear-session=sps_[0-9a-f]{64}; Max-Age=\d+; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
    );
    return cookie.split(';', 1)[0] ?? '';
  }

  it('a session cookie allows changes only with a header that no form can send [people.oidc.cookie]', async () => {
    const running = await start();
    const { call, test } = running;
    const cookie = await cookieOf(running);
    const json = { cookie, 'content-type': 'application/json' };
    const record = JSON.stringify(fsRecord);
    expect((await call('GET', me, { cookie })).status).toBe(200);
    expect((await call('HEAD', me, { cookie })).status).toBe(200);
    const forged = await call('POST', servers, json, record);
    expect([forged.status, JSON.parse(forged.text).type]).toEqual([403, 'urn:spear:problem:unguarded']);
    expect((await call('DELETE', `${servers}/fs`, { cookie })).status).toBe(403);
    const guarded = { ...json, 'x-spear-session': '1' };
    // A page of another site is refused, header or not.
    expect((await call('POST', servers, { ...guarded, origin: 'https://evil.example' }, record)).status).toBe(403);
    expect((await call('POST', servers, guarded, record)).status).toBe(201);
    // A wrong token beside a good cookie is a wrong token.
    expect((await call('GET', me, { cookie, authorization: 'Bearer wrong' })).status).toBe(401);
    // A cookie names sessions, never tokens.
    expect((await call('GET', me, { cookie: `__Host-spear-session=${test.adminToken}` })).status).toBe(401);
    expect(JSON.parse((await call('POST', '/auth/logout', { cookie })).text)).toEqual({ ended: false });
    const out = await call('POST', '/auth/logout', { cookie, 'x-spear-session': '1' });
    expect(out.headers['set-cookie']).toEqual([
      '__Host-spear-session=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Strict',
    ]);
    expect((await call('GET', me, { cookie })).status).toBe(401);
  });

  it('an ID token of another login is rejected [people.oidc.login]', async () => {
    const running = await start();
    const { fake, key, call } = running;
    for (const more of [{ nonce: 'another' }, { nonce: undefined }, { aud: 'another-app' }]) {
      fake.idToken = (nonce) =>
        signed(key, { iss: fake.issuer, aud: 'spear', sub: 'bob', team: '*', exp: now() + 60, nonce, ...more });
      const begun = await call('GET', `/auth/login?challenge=${pageSecret().challenge}`);
      const answered = await fetch(String(begun.headers.location), { redirect: 'manual' });
      const { pathname, search } = new URL(answered.headers.get('location') ?? '');
      const mixedUp = await call('GET', `${pathname}${search}`);
      expect([mixedUp.status, mixedUp.text]).toEqual([403, expect.stringContaining('not valid for this login')]);
    }
  });
});
