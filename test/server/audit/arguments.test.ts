import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/base/json.ts';
import { argumentsShown, shapeOfArguments } from '../../../src/server/audit/arguments.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describe('arguments as their shape', () => {
  it.each<[string, JsonValue | undefined, unknown]>([
    ['nothing', {}, {}],
    ['a text', { path: 'secret' }, { path: 'string(6)' }],
    ['a number and a truth value', { n: 1.5, b: true, f: false }, { n: 'number', b: 'boolean', f: 'boolean' }],
    ['null', { x: null }, { x: 'null' }],
    ['a list', { list: ['a', 'b', 'c'] }, { list: 'array(3)' }],
    ['an object', { nested: { password: 'x', user: 'y' } }, { nested: 'object(2)' }],
    ['a key that JavaScript knows', JSON.parse('{"__proto__":"x"}'), JSON.parse('{"__proto__":"string(1)"}')],
    ['no object: a text', 'secret', null],
    ['no object: a list', ['secret'], null],
    ['no object: null', null, null],
    ['no JSON at all', undefined, null],
  ])('%s', (_, value, expected) => {
    expect(shapeOfArguments(value)).toEqual(expected);
  });

  it('have 32 keys at most, each of 64 characters at most', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`key_${index}`, index]));
    expect(Object.keys(shapeOfArguments(many) ?? {})).toHaveLength(32);
    expect(shapeOfArguments({ ['k'.repeat(100)]: 1 })).toEqual({ ['k'.repeat(64)]: 'number' });
  });

  it('never hold a value', () => {
    const secret = 'S3CRET';
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const holding = { a: secret, b: [secret], c: { d: secret, e: value as JsonValue } };
        expect(JSON.stringify(shapeOfArguments(holding))).not.toContain(secret);
      }),
    );
  });
});

describe('arguments as a digest', () => {
  const show = argumentsShown('sha256', sha256);

  it('are the sha256 of their canonical form', () => {
    expect(show({ b: 1, a: [true] })).toBe(`sha256:${sha256('{"a":[true],"b":1}')}`);
    expect(show(JSON.parse('{ "a": [ true ],\n"b": 1.0 }'))).toBe(show({ b: 1, a: [true] }));
    expect(show({ a: 1 })).not.toBe(show({ a: 2 }));
  });

  it('are nothing where there is no canonical form', () => {
    const deep = JSON.parse(`{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`) as JsonValue;
    for (const value of [undefined, null, [], 'text', deep]) expect(show(value)).toBeNull();
  });
});

it('are left out on demand', () => {
  expect(argumentsShown('none', sha256)({ a: 1 })).toBeNull();
});
