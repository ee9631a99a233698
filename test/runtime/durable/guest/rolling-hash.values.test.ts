import { describe, expect, it } from 'vitest';
import { LOOKED_AT_BYTES, mix, mixStartOfText, mixValue } from '../../../../src/runtime/durable/guest/rolling-hash.ts';

const bytes = (...values: number[]) => Uint8Array.from(values);

describe('the hash of a value of a message', () => {
  // The types of values are no part of the hash: a message has the same ones at the same places. '' and [] are alike.
  const values: readonly unknown[] = [
    null,
    undefined,
    true,
    false,
    ...[0, 1, -1, 2 ** 31, 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER, 0.5, -0.5, Number.NaN],
    ...['', 'a', 'b', 'ab', 'ba', 'a\u0000', 'é', '\ud83d\ude00'],
    ...['x'.repeat(1_024), 'x'.repeat(1_025), `${'x'.repeat(1_024)}y`, `y${'x'.repeat(1_024)}`],
    ...[bytes(), bytes(0), bytes(0, 0), bytes(1)],
    ...[[0], [0, 0], [[0], 0], [0, [0]], ['a', 'b'], ['ab']],
    ...[{ a: 1 }, { a: 2 }, { b: 1 }, { a: 1, b: 2 }, { b: 2, a: 1 }],
  ];

  it('is another for each of these', () => {
    const hashes = values.map((value) => mixValue(7, value));
    expect(new Set(hashes).size).toBe(values.length);
  });

  it('is the same for the same, in 32 bits', () => {
    for (const value of values) {
      const hash = mixValue(7, value);
      expect(hash).toBe(mixValue(7, structuredClone(value)));
      expect(hash).toBe(hash | 0);
    }
  });

  it('is another after another value: a difference is never lost', () => {
    for (const value of values) expect(mixValue(7, value)).not.toBe(mixValue(8, value));
  });

  it('is that of the bytes of a view alone, wherever they are in its buffer', () => {
    const whole = bytes(9, 1, 2, 3, 9);
    expect(mixValue(7, whole.subarray(1, 4))).toBe(mixValue(7, bytes(1, 2, 3)));
    expect(mixValue(7, Buffer.from([1, 2, 3]))).toBe(mixValue(7, bytes(1, 2, 3)));
  });
});

describe('the hash of a text that a call passes beside the memory', () => {
  it('has its length and its beginning', () => {
    const start = 'x'.repeat(LOOKED_AT_BYTES);
    expect(mixStartOfText(7, `${start}a`)).toBe(mixStartOfText(7, `${start}b`));
    expect(mixStartOfText(7, `${start}a`)).not.toBe(mixStartOfText(7, start));
    expect(mixStartOfText(7, `y${start}`)).not.toBe(mixStartOfText(7, `x${start}`));
  });

  it('has the last character of a text of odd length', () => {
    expect(mixStartOfText(7, 'abc')).not.toBe(mixStartOfText(7, 'abd'));
  });
});

it('mixing loses nothing of the state: other states stay other', () => {
  const states = Array.from({ length: 10_000 }, (_, at) => at * 429_497);
  expect(new Set(states.map((state) => mix(state, 5))).size).toBe(states.length);
  expect(new Set(states.map((state) => mix(5, state))).size).toBe(states.length);
});
