import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Identity } from '../../src/protocol/people.ts';
import { IDENTITY_CACHE_MS, RegistryIdentities } from '../../src/spearlet/registry-identities.ts';

const ann: Identity = { name: 'ann', roles: ['viewer'], namespace: '*', mayReadJournals: false, expiresAtMs: null };
const [ANN, NOBODY] = ['a'.repeat(64), 'b'.repeat(64)];

/** A fake registry: it knows one digest, says so or fails, and counts who asks. */
function fakeRegistry() {
  const state = { asked: 0, away: false, ann: ann as Identity | null, said: [] as string[] };
  const port = {
    identify: async (sha256: string) => {
      state.asked += 1;
      if (state.away) throw new Error('it is away');
      return sha256 === ANN ? state.ann : null;
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
  const all = await Promise.all(Array.from({ length: 20 }, () => people.identify(ANN)));
  expect([new Set(all), state.asked]).toEqual([new Set([ann]), 1]);
  vi.advanceTimersByTime(IDENTITY_CACHE_MS - 1);
  await people.identify(ANN);
  expect(state.asked).toBe(1);
  vi.advanceTimersByTime(1);
  state.ann = null;
  expect([await people.identify(ANN), state.asked]).toEqual([null, 2]);
});

it('lets nobody in when the registry is away for longer than an answer holds, and says so once', async () => {
  const { state, people } = fakeRegistry();
  await people.identify(ANN);
  state.away = true;
  expect(await people.identify(ANN)).toBe(ann);
  vi.advanceTimersByTime(IDENTITY_CACHE_MS);
  expect(await people.identify(ANN)).toBe('unavailable');
  expect(await people.identify(NOBODY)).toBe('unavailable');
  expect(state.said).toEqual(['it is away']);
  state.away = false;
  expect(await people.identify(ANN)).toBe(ann);
});

it('knows the end of a token, whatever it was told before', async () => {
  const { state, people } = fakeRegistry();
  state.ann = { ...ann, expiresAtMs: Date.now() + 1_000 };
  expect(await people.identify(ANN)).toMatchObject({ name: 'ann' });
  vi.advanceTimersByTime(1_000);
  expect(await people.identify(ANN)).toBeNull();
});

it('bounds how many are asked about at once, and remembers who is known whatever others try', async () => {
  const { state, people } = fakeRegistry();
  await people.identify(ANN);
  const tried = Array.from({ length: 500 }, (_, n) => people.identify(n.toString(16).padStart(64, '0')));
  const answers = await Promise.all(tried);
  expect(answers.filter((answer) => answer === 'unavailable').length).toBe(500 - 64);
  expect([await people.identify(ANN), state.asked]).toEqual([ann, 65]);
});
