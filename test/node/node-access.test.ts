import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IDENTITY_CACHE_MS, LOOKUPS_PER_PEER_PER_SECOND, RegistryIdentities } from '../../src/node/node-access.ts';
import { newTokenText } from '../../src/server/identity/token-text.ts';
import type { Identity, IssuerDescription } from '../../src/server/records/permissions.ts';
import { makeKey, published, signed, signedBySecret, unsigned } from '../server/identity/oidc/fake-issuer.ts';

const ann: Identity = { name: 'ann', roles: ['viewer'], namespace: '*', mayReadJournals: false, expiresAtMs: null };
const TOKEN = newTokenText();
const PEER = '192.0.2.1';
const [ANN, UNKNOWN] = ['a'.repeat(64), 'b'.repeat(64)];

/** A fake registry: it knows one digest, says so or fails, and counts who asks. */
function fakeRegistry() {
  const state = {
    asked: 0,
    away: false,
    ann: ann as Identity | null,
    said: [] as string[],
    issuer: null as IssuerDescription | null,
  };
  const port = {
    identify: async (sha256: string) => {
      state.asked += 1;
      if (state.away) throw new Error('it is away');
      return sha256 === ANN ? state.ann : null;
    },
    issuer: async () => {
      state.asked += 1;
      if (state.away) throw new Error('it is away');
      return state.issuer;
    },
  };
  return { state, people: new RegistryIdentities(port, (why) => state.said.push(why)) };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

it('asks once for those who come together, and again when an answer is old', async () => {
  const { state, people } = fakeRegistry();
  const all = await Promise.all(Array.from({ length: 20 }, () => people.identify(ANN, TOKEN, PEER)));
  expect([new Set(all), state.asked]).toEqual([new Set([ann]), 1]);
  vi.advanceTimersByTime(IDENTITY_CACHE_MS - 1);
  await people.identify(ANN, TOKEN, PEER);
  expect(state.asked).toBe(1);
  vi.advanceTimersByTime(1);
  state.ann = null;
  expect([await people.identify(ANN, TOKEN, PEER), state.asked]).toEqual([null, 2]);
});

it('rejects callers when the registry is unreachable for longer than the cache time, and logs it once', async () => {
  const { state, people } = fakeRegistry();
  await people.identify(ANN, TOKEN, PEER);
  state.away = true;
  expect(await people.identify(ANN, TOKEN, PEER)).toBe(ann);
  vi.advanceTimersByTime(IDENTITY_CACHE_MS);
  expect(await people.identify(ANN, TOKEN, PEER)).toBe('unavailable');
  expect(await people.identify(UNKNOWN, TOKEN, PEER)).toBe('unavailable');
  expect(state.said).toEqual(['it is away']);
  state.away = false;
  expect(await people.identify(ANN, TOKEN, PEER)).toBe(ann);
});

it('rejects an expired token, even if it is cached', async () => {
  const { state, people } = fakeRegistry();
  state.ann = { ...ann, expiresAtMs: Date.now() + 1_000 };
  expect(await people.identify(ANN, TOKEN, PEER)).toMatchObject({ name: 'ann' });
  vi.advanceTimersByTime(1_000);
  expect(await people.identify(ANN, TOKEN, PEER)).toBeNull();
});

/** A digest that the fake registry does not know. */
const other = (n: number) => n.toString(16).padStart(64, '0');

it('bounds lookups in flight, and looks up callers that were valid recently all the same [node.identity.flood]', async () => {
  const { state, people } = fakeRegistry();
  await people.identify(ANN, TOKEN, PEER);
  vi.advanceTimersByTime(IDENTITY_CACHE_MS);
  const tried = Array.from({ length: 500 }, (_, n) => people.identify(other(n), newTokenText(), `peer ${n}`));
  const known = people.identify(ANN, TOKEN, PEER);
  expect((await Promise.all(tried)).filter((answer) => answer === 'too_many').length).toBe(500 - 64);
  expect([await known, state.asked]).toEqual([ann, 1 + 64 + 1]);
});

it('refuses malformed tokens without a lookup [node.identity.flood]', async () => {
  const { state, people } = fakeRegistry();
  const wrongSum = `${TOKEN.slice(0, -1)}${TOKEN.endsWith('0') ? '1' : '0'}`;
  for (const token of [
    'short',
    'spr_x',
    wrongSum,
    `${TOKEN}0`,
    TOKEN.toUpperCase().replace('SPR', 'spr'),
    'eyJ.e30.x',
  ]) {
    expect(await people.identify(ANN, token, PEER)).toBeNull();
  }
  expect(state.asked).toBe(0);
});

it('looks up unknown tokens within a budget per peer and form [node.identity.flood]', async () => {
  const { state, people } = fakeRegistry();
  const old = () => `spr_${randomBytes(32).toString('hex')}`;
  const flood = [];
  for (let n = 0; n < 500; n++) flood.push(await people.identify(other(n), old(), PEER));
  expect(flood.filter((answer) => answer === null).length).toBe(LOOKUPS_PER_PEER_PER_SECOND);
  expect(flood.filter((answer) => answer === 'too_many').length).toBe(500 - LOOKUPS_PER_PEER_PER_SECOND);
  expect(state.asked).toBe(LOOKUPS_PER_PEER_PER_SECOND);
  // A caller of another address, and one of the same address with a token that has a checksum, are not affected.
  expect(await people.identify(UNKNOWN, old(), '192.0.2.9')).toBeNull();
  expect(await people.identify(ANN, TOKEN, PEER)).toBe(ann);
  vi.advanceTimersByTime(1_000);
  expect(await people.identify(other(500), old(), PEER)).toBeNull();
});

describe('a token of the registry’s issuer', () => {
  const key = makeKey('one');
  const description: IssuerDescription = {
    issuer: 'https://id.test',
    audiences: ['spear'],
    nameClaim: 'sub',
    rolesClaim: 'groups',
    roles: new Map([['sre', ['operator']]]),
    journalValues: ['auditors'],
    namespace: null,
    namespaceClaim: 'team',
    keys: [published(key) as IssuerDescription['keys'][number]],
    nodeNamespace: '*',
  };
  const seconds = () => Math.floor(Date.now() / 1000);
  const claims = (more: object = {}) => ({
    ...{ iss: 'https://id.test', aud: 'spear', sub: 'bob', groups: ['sre'], team: 'team-a' },
    ...{ iat: seconds(), exp: seconds() + 600, ...more },
  });
  let digests = 0;
  const who = (people: RegistryIdentities, token: string) =>
    people.identify((++digests).toString(16).padStart(64, '0'), token, `192.0.2.${digests}`);

  it('identifies a user by its signature, and no user without [node.people.oidc]', async () => {
    const { state, people } = fakeRegistry();
    const token = signed(key, claims({ groups: ['sre', 'auditors'] }));
    expect(await who(people, token)).toBeNull(); // the registry has no issuer
    state.issuer = description;
    expect(await who(people, token)).toMatchObject({
      ...{ name: 'oidc:bob', roles: ['operator'], namespace: 'team-a', mayReadJournals: true },
    });
    const refused = [
      signed(makeKey('one'), claims()),
      signed(key, claims({ iss: 'https://other.test' })),
      signed(key, claims({ aud: 'other' })),
      signed(key, claims({ team: undefined })),
      signed(key, claims({ exp: seconds() - 61 })),
      signed(key, claims({ exp: undefined })),
      signed(key, claims(), { crit: ['x'] }),
      signedBySecret(JSON.stringify(published(key)), claims(), { kid: 'one' }),
      unsigned(claims(), 'none', 'x'),
      `${token.slice(0, -4)}AAAA`,
    ];
    for (const each of refused) expect(await who(people, each)).toBeNull();
    state.issuer = { ...description, nodeNamespace: 'team-b' };
    expect(await who(people, token)).toBeNull();
    expect(await who(people, signed(key, claims({ team: '*' })))).toMatchObject({ namespace: '*' });
  });

  it('follows changes of issuer and registry within five seconds, or identifies no user [node.people.oidc]', async () => {
    const { state, people } = fakeRegistry();
    state.issuer = description;
    const token = signed(key, claims());
    const roles = async () => ((await people.identify(ANN, token, PEER)) as Identity | null)?.roles;
    expect([await roles(), await roles(), state.asked]).toEqual([['operator'], ['operator'], 1]);
    state.issuer = { ...description, roles: new Map() };
    vi.advanceTimersByTime(IDENTITY_CACHE_MS);
    expect(await roles()).toEqual([]);
    state.issuer = { ...description, keys: [] };
    vi.advanceTimersByTime(IDENTITY_CACHE_MS);
    expect(await people.identify(ANN, token, PEER)).toBeNull();
    state.away = true;
    vi.advanceTimersByTime(IDENTITY_CACHE_MS);
    expect(await people.identify(ANN, token, PEER)).toBe('unavailable');
  });

  it('has an end, whatever was said before [node.people.oidc]', async () => {
    const { state, people } = fakeRegistry();
    state.issuer = description;
    const token = signed(key, claims({ exp: seconds() - 58 })); // clocks may differ by a minute
    expect(await people.identify(ANN, token, PEER)).toMatchObject({ name: 'oidc:bob' });
    vi.advanceTimersByTime(2_000);
    expect(await people.identify(ANN, token, PEER)).toBeNull();
  });
});
