import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/protocol/json.ts';
import { redactArguments } from '../../src/telemetry/redact-arguments.ts';

describe('the shape of arguments', () => {
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
  ])('of %s [audit.redaction]', (_, value, expected) => {
    expect(redactArguments(value)).toEqual(expected);
  });

  it('has 32 keys at most, each of 64 characters at most [audit.redaction]', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`key_${index}`, index]));
    expect(Object.keys(redactArguments(many) ?? {})).toHaveLength(32);
    expect(redactArguments({ ['k'.repeat(100)]: 1 })).toEqual({ ['k'.repeat(64)]: 'number' });
  });

  it('never holds a value [audit.redaction]', () => {
    const secret = 'S3CRET';
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const holding = { a: secret, b: [secret], c: { d: secret, e: value as JsonValue } };
        expect(JSON.stringify(redactArguments(holding))).not.toContain(secret);
      }),
    );
  });
});
