import { expect, it } from 'vitest';
import { Issuer, IssuerUnavailable } from '../../../../src/server/identity/oidc/issuer.ts';
import { readSignedToken, type SignedToken } from '../../../../src/server/identity/oidc/signed-token.ts';
import { makeKey, published, signed } from './fake-issuer.ts';

const name = 'https://id.example';
const [one, two] = [makeKey('one'), makeKey('two')];
const minute = 60_000;

/** An issuer with a clock and responses set by the test. */
function start(answers: { keys: readonly object[]; broken?: string; description?: object }) {
  const clock = { nowMs: 0 };
  const asked: string[] = [];
  const issuer = new Issuer({
    issuer: name,
    now: () => clock.nowMs,
    onProblem: () => {},
    fetch: async (url) => {
      asked.push(url);
      if (answers.broken !== undefined) throw new Error(answers.broken);
      const description = {
        issuer: name,
        jwks_uri: `${name}/keys`,
        authorization_endpoint: `${name}/a`,
        token_endpoint: `${name}/t`,
        ...answers.description,
      };
      return Response.json(url.endsWith('/keys') ? { keys: answers.keys } : description);
    },
  });
  return { issuer, clock, asked, answers };
}

function tokenBy(key: typeof one): SignedToken {
  const token = readSignedToken(signed(key, { exp: 1 }));
  if (token === null) throw new Error('not a token');
  return token;
}

it('loads a new key when a token names it, drops a revoked key, and bounds its requests [people.oidc.rotation]', async () => {
  const { issuer, clock, asked, answers } = start({ keys: [published(one)] });
  expect(await issuer.keysFor(tokenBy(one))).toHaveLength(1);
  answers.keys = [published(two)];
  expect(await issuer.keysFor(tokenBy(two))).toHaveLength(0);
  expect(asked).toHaveLength(2);
  clock.nowMs += 11_000;
  expect(await issuer.keysFor(tokenBy(two))).toHaveLength(1);
  expect(await issuer.keysFor(tokenBy(one))).toHaveLength(0);
  expect(asked).toHaveLength(4);
  answers.keys = [published(one)];
  clock.nowMs += 11 * minute;
  expect(await issuer.keysFor(tokenBy(two))).toHaveLength(0);
});

it('an unreachable issuer keeps its cached keys for an hour [people.oidc.away]', async () => {
  const { issuer, clock, answers } = start({ keys: [published(one)] });
  await issuer.keysFor(tokenBy(one));
  answers.broken = 'connection refused';
  clock.nowMs += 30 * minute;
  expect(await issuer.keysFor(tokenBy(one))).toHaveLength(1);
  clock.nowMs += 31 * minute;
  await expect(issuer.keysFor(tokenBy(one))).rejects.toThrow(IssuerUnavailable);
  delete answers.broken;
  clock.nowMs += minute;
  expect(await issuer.keysFor(tokenBy(one))).toHaveLength(1);
});

it.each([
  [{ issuer: 'https://other.example' }, 'names a different issuer'],
  [{ jwks_uri: 'http://id.example/keys' }, 'its jwks_uri is not an https URL'],
  [{ jwks_uri: 'file:///etc/passwd' }, 'its jwks_uri is not an https URL'],
  [{ token_endpoint: undefined }, 'its token_endpoint is not an https URL'],
])('an issuer with %j is rejected', async (description, why) => {
  await expect(start({ keys: [published(one)], description }).issuer.endpoints()).rejects.toThrow(why);
});

it('an issuer without a usable key is rejected', async () => {
  const { publicKey } = makeKey('small', 'RS256');
  const unusable = [
    { kty: 'oct', k: 'c2VjcmV0' },
    { ...publicKey.export({ format: 'jwk' }), use: 'enc' },
    { kty: 'EC', crv: 'P-521' },
    5,
  ];
  await expect(start({ keys: unusable as object[] }).issuer.endpoints()).rejects.toThrow('has no usable key');
});
