import { createHmac, createPublicKey, generateKeyPairSync, type JsonWebKeyInput, sign } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { Issuer } from '../../../../src/server/identity/oidc/issuer.ts';
import { OidcTokens } from '../../../../src/server/identity/oidc/oidc-tokens.ts';
import { startTestSms, stopAll } from '../../../registry/running-sms.ts';
import { Random } from '../../../torture/random.ts';
import { usual } from './oidc-config.ts';
import { browse, type RealIssuer, startRealIssuer } from './real-issuer.ts';

// Tokens and redirects of a real issuer, changed by an attacker.

const AUDIENCE = 'https://spear.test/api';
const SEED = 26;
const FORGERIES = 2_000;

let real: RealIssuer;
beforeAll(async () => {
  real = await startRealIssuer();
});
afterAll(() => real.end());
afterEach(stopAll);

type Json = Record<string, unknown>;

async function realToken(): Promise<string> {
  const answer = await fetch(`${real.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('machine:canary-oidc-secret-0123456789')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: AUDIENCE, scope: 'runs' }),
  });
  return ((await answer.json()) as { access_token: string }).access_token;
}

async function publishedKeys(): Promise<Json[]> {
  const { keys } = (await (await fetch(`${real.issuer}/jwks`)).json()) as { keys: Json[] };
  return keys;
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (part = '') => JSON.parse(Buffer.from(part, 'base64url').toString()) as Json;
const own = generateKeyPairSync('rsa', { modulusLength: 2048 });
const hostileNames = [
  'none',
  'None',
  'nOnE',
  'HS256',
  'HS512',
  'RS512',
  'PS256',
  'ES256',
  'EdDSA',
  '',
  null,
  ['RS256'],
];

/** One forgery of a token that the issuer has signed. */
function forged(token: string, key: Json, random: Random): string {
  const [first = '', second = '', third = ''] = token.split('.');
  const [header, claims] = [decode(first), decode(second)];
  const resigned = (head: Json, body: Json) => {
    const text = `${encode({ ...head, alg: 'RS256' })}.${encode(body)}`;
    return `${text}.${sign('sha256', Buffer.from(text), own.privateKey).toString('base64url')}`;
  };
  const jwk = own.publicKey.export({ format: 'jwk' });
  const ways: readonly (() => string)[] = [
    // The signature of another text, or none.
    () => `${encode({ ...header, alg: random.pick(hostileNames) })}.${second}.${random.pick([third, '', 'AA'])}`,
    () => `${first}.${encode({ ...claims, groups: ['spear-admins'], team: '*' })}.${third}`,
    () => `${first}.${encode({ ...claims, aud: random.pick(['spear', AUDIENCE, '*']), sub: 'alice' })}.${third}`,
    () => `${first}.${encode({ ...claims, exp: 9e9 })}.${third}`,
    // The public key as the secret of an HMAC.
    () => {
      const text = `${encode({ ...header, alg: 'HS256' })}.${second}`;
      const pem = createPublicKey({ key, format: 'jwk' } as JsonWebKeyInput).export({ type: 'spki', format: 'pem' });
      const secret = random.pick([pem as string, String(key.n), JSON.stringify(key)]);
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
    },
    // A key of the attacker, in the token or behind its id.
    () => resigned({ ...header, jwk }, claims),
    () =>
      resigned({ ...header, jku: `${real.issuer}/../evil/jwks`, kid: random.pick([header.kid, 'x', null]) }, claims),
    () => resigned({ ...header, x5u: 'http://127.0.0.1:1/x', x5c: ['MIIB'] }, claims),
    () => resigned({ ...header, kid: random.pick(['../../etc/passwd', "' or 1=1", '', 7, header.kid]) }, claims),
    () => resigned(header, { ...claims, iss: random.pick([real.issuer, `${real.issuer}/`, 'https://evil.example']) }),
    // Any bit of it.
    () => {
      const bytes = Buffer.from(token);
      const at = random.below(bytes.length);
      bytes[at] = (bytes[at] as number) ^ (1 << random.below(7));
      return bytes.toString();
    },
    () => `${first}.${second}.${third.slice(0, random.below(third.length))}`,
    () => `${token}${random.pick(['.', '.x', '=', 'A'])}`,
    () => [first, second, third].toSorted(() => (random.chance(2) ? 1 : -1)).join('.'),
  ];
  return random.pick(ways)();
}

it('rejects forged variants of a token that a real issuer signed [people.oidc.refused]', async () => {
  const config = usual(real.issuer, `audiences = ["${AUDIENCE}"]`);
  if (config === null) throw new Error('there is no config');
  const issuer = new Issuer({ issuer: real.issuer, fetch, onProblem: () => {} });
  const tokens = new OidcTokens(config, issuer);
  const [token, [key = {}]] = await Promise.all([realToken(), publishedKeys()]);
  expect(await tokens.identify(token)).toMatchObject({ name: 'oidc:machine' });
  const random = new Random(SEED);
  const taken: string[] = [];
  for (let left = FORGERIES; left > 0; left--) {
    const text = forged(token, key, random);
    // The last character of a signature has bits that say nothing.
    const isSame = Buffer.from(text.split('.')[2] ?? '', 'base64url').equals(
      Buffer.from(token.split('.')[2] ?? '', 'base64url'),
    );
    const isToken =
      text === token ||
      (isSame &&
        text.split('.').slice(0, 2).join('.') === token.slice(0, token.lastIndexOf('.')) &&
        text.split('.').length === 3);
    const who = await tokens.identify(text);
    if (!isToken && who !== null && typeof who !== 'string') taken.push(text);
  }
  expect(taken).toEqual([]);
});

it('rejects a login redirect of another issuer, and one without a supported iss [people.oidc.mix-up]', async () => {
  const sms = await startTestSms({ oidc: usual(real.issuer) });
  const challenge = '0'.repeat(64);
  const begun = async () => {
    const start = await fetch(`${sms.sms.http}/auth/login?challenge=${challenge}&return_to=/console/`, {
      redirect: 'manual',
    });
    return new URL(start.headers.get('location') ?? '');
  };
  await real.become('bob');
  const changes: readonly ((answer: URLSearchParams) => void)[] = [
    (answer) => answer.delete('iss'),
    (answer) => answer.set('iss', 'https://evil.example'),
    (answer) => answer.set('iss', `${real.issuer}/`),
    (answer) => answer.set('iss', ''),
    (answer) => answer.set('state', 'another'),
    (answer) => answer.set('code', 'another'),
    (answer) => answer.delete('code'),
    (answer) => answer.set('error', 'access_denied'),
  ];
  const statuses: number[] = [];
  for (const change of changes) {
    const asked = await begun();
    // The real answer, caught on its way back.
    const redirect = asked.searchParams.get('redirect_uri') ?? '';
    const back = await caught(asked, redirect);
    const answer = back.searchParams;
    expect(answer.get('iss')).toBe(real.issuer);
    change(answer);
    const { status } = await fetch(`${redirect}?${answer}`, { redirect: 'manual' });
    statuses.push(status);
  }
  // An error beside a valid code is not one of the issuer: the code decides.
  expect(statuses).toEqual([403, 403, 403, 403, 403, 403, 403, 302]);
});

/** Follows the issuer up to its redirect to the client, and stops there. */
async function caught(asked: URL, redirect: string): Promise<URL> {
  const back = await browse(asked.href, (next) => next.href.startsWith(redirect));
  return back.url;
}
