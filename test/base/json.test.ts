import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson, isJsonObject, type JsonObject, parseJson, tooDeepAt } from '../../src/base/json.ts';

describe('canonical JSON', () => {
  it('is compact, with the keys of every level in order [json.canonical]', () => {
    const value = { b: [{ z: 1, a: [] }, {}], a: { d: null, c: true }, '': 'x' };
    expect(canonicalJson(value)).toBe('{"":"x","a":{"c":true,"d":null},"b":[{"a":[],"z":1},{}]}');
  });

  it('puts integer-like keys where their letters put them [json.canonical]', () => {
    expect(canonicalJson({ 10: 1, 9: 2, 1: 3, b: 4, a: 5, '-1': 6, '01': 7 })).toBe(
      '{"-1":6,"01":7,"1":3,"10":1,"9":2,"a":5,"b":4}',
    );
  });

  it('orders by code point, so that astral characters come after all others [json.canonical]', () => {
    // U+FF61 is one UTF-16 unit above the surrogates of U+1F680, and below it as a code point
    expect(canonicalJson({ '🚀': 1, '｡': 2, z: 3, ü: 4 })).toBe('{"z":3,"ü":4,"｡":2,"🚀":1}');
  });

  it('puts a key before the keys that begin with it [json.canonical]', () => {
    expect(canonicalJson({ ab: 1, a: 2, abc: 3, aa: 4 })).toBe('{"a":2,"aa":4,"ab":1,"abc":3}');
  });

  it('keeps __proto__ as a key like any other [json.canonical]', () => {
    expect(canonicalJson(JSON.parse('{"__proto__":{"b":1,"a":2},"a":1}'))).toBe('{"__proto__":{"a":2,"b":1},"a":1}');
  });

  it('writes texts, numbers and the rest as JSON.stringify does [json.canonical]', () => {
    for (const value of ['"\\\u2028\ud800', 1e21, -0, 0.1, true, false, null]) {
      expect(canonicalJson(value)).toBe(JSON.stringify(value));
    }
  });

  it('is the order of the keys’ UTF-8 bytes, loses nothing, and does not depend on the order given [json.canonical]', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()),
        fc.infiniteStream(fc.nat()),
        (object, order) => {
          const value = object as JsonObject;
          const text = canonicalJson(value);
          expect(isDeepStrictEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)))).toBe(true);
          const shuffled = Object.entries(value)
            .map((entry) => [order.next().value ?? 0, entry] as const)
            .sort(([a], [b]) => a - b)
            .map(([, entry]) => entry);
          expect(canonicalJson(Object.fromEntries(shuffled))).toBe(text);
          const byBytes = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
          const rebuilt = byBytes.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`);
          expect(text).toBe(`{${rebuilt.join(',')}}`);
        },
      ),
      { numRuns: 2000, seed: 11 },
    );
  });
});

it('an object is neither null nor a list [json.canonical]', () => {
  expect([{}, null, [], 'x', 1, undefined].map(isJsonObject)).toEqual([true, false, false, false, false, false]);
});

it.each([
  ['{"a":[1]}', { a: [1] }],
  ['null', null],
  ['{"a":1,}', undefined],
  ['', undefined],
])('parses %j as %j', (text, value) => {
  expect(parseJson(text)).toEqual(value);
});

it.each([
  ['[[[]]]', 3, null],
  ['[[[]]]', 2, 2],
  ['[{"a":[]}]', 2, 6],
  ['[[],[],{}]', 2, null],
  ['["[[[[\\"[["]', 1, null],
  ['', 0, null],
])('%j beyond %i levels: %s', (text, maxDepth, at) => {
  expect(tooDeepAt(text, maxDepth)).toBe(at);
});
