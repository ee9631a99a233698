import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  HostileSchemaError,
  loadSchemaEngine,
  SchemaCheck,
  type SchemaEngine,
  SchemaStrikes,
  schemaShape,
  type ValidationResult,
} from '../../../../../src/agent/mcp/client/schema/checks.ts';
import { SchemaThread } from '../../../../../src/agent/mcp/client/schema/schema-thread.ts';
import type { JsonObject, JsonValue } from '../../../../../src/base/json.ts';
import { starvedMs } from '../../../../support/starved.ts';

const limits = { maxSchemaBytes: 256 * 1024, maxSchemaDepth: 64, validationTimeoutMs: 30_000 };
const thread = new SchemaThread({ maxQueued: 16, idleMs: 60_000 });
let engine: SchemaEngine;

beforeAll(async () => {
  engine = await loadSchemaEngine(thread, limits);
});
afterAll(() => thread.close());

const schemaCheck = (schema: JsonObject, subject: 'arguments' | 'structuredContent' = 'arguments') =>
  new SchemaCheck(schema, subject, engine, new SchemaStrikes());
/** The engine with less time for a check. */
const hasty = (validationTimeoutMs: number, more = {}): SchemaEngine => ({
  ...engine,
  limits: { ...limits, ...more, validationTimeoutMs },
});
const check = async (schema: JsonObject, value: JsonValue): Promise<ValidationResult> =>
  schemaCheck(schema).check(value);
const problem = async (schema: JsonObject, value: JsonValue): Promise<string | null> => {
  const verdict = await check(schema, value);
  if (verdict !== null && 'unchecked' in verdict) throw new Error(`unchecked: ${verdict.unchecked}`);
  return verdict?.problem ?? null;
};
const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...more });

describe('arguments', () => {
  it.each<[string, JsonObject, JsonValue, string | null]>([
    ['a right value', object({ path: { type: 'string' } }), { path: 'a' }, null],
    ['a wrong type', object({ path: { type: 'string' } }), { path: 1 }, 'arguments/path must be string'],
    ['a missing one', object({}, { required: ['path'] }), {}, "arguments must have required property 'path'"],
    ['an unknown one', object({}, { additionalProperties: false }), { x: 1 }, 'additional properties: "x"'],
    ['one of a list', object({ m: { enum: ['r', 'w'] } }), { m: 'x' }, 'one of the allowed values: ["r","w"]'],
    ['only own properties', object({}, { required: ['toString'] }), {}, 'toString'],
    ['a format, which is not checked', object({ u: { type: 'string', format: 'uri' } }), { u: 'no uri' }, null],
    ['an unknown keyword', object({ a: { 'x-order': 1, type: 'string' } }), { a: 'b' }, null],
  ])('are validated synchronously if the schema is cheap: %s', (_, schema, value, expected) => {
    const verdict = schemaCheck(schema).check(value);
    if (expected === null) expect(verdict).toBeNull();
    else expect(verdict).toEqual({ problem: expect.stringContaining(expected) });
  });

  it('are never quoted in errors', async () => {
    expect(await problem(object({ a: { type: 'number', maximum: 1 } }), { a: 's3cret' })).not.toContain('s3cret');
    expect(await problem(object({ a: { const: 'x' } }), { a: 's3cret' })).not.toContain('s3cret');
  });

  it('are validated on the schema thread if they are large', async () => {
    const many = { list: Array.from({ length: 50_000 }, (_, at) => at) };
    const schema = object({ list: { type: 'array', items: { type: 'integer', maximum: 40_000 } } });
    const verdict = schemaCheck(schema).check(many);
    expect(verdict).toBeInstanceOf(Promise);
    expect(await verdict).toEqual({ problem: 'arguments/list/40001 must be <= 40000' });
  });
});

describe('a schema', () => {
  it.each<[string, JsonObject]>([
    [
      'of draft-07',
      { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }, { type: 'number' }] },
    ],
    [
      'of 2020-12',
      {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        prefixItems: [{ type: 'string' }, { type: 'number' }],
      },
    ],
    ['of 2020-12 by default', { prefixItems: [{ type: 'string' }, { type: 'number' }] }],
    ['of draft-07 without saying so', { items: [{ type: 'string' }, { type: 'number' }] }],
  ])('%s is supported', async (_, schema) => {
    expect(await problem(schema, ['a', 1])).toBeNull();
    expect(await problem(schema, ['a', 'b'])).toContain('arguments/1 must be number');
  });

  it.each<[string, JsonObject, RegExp]>([
    [
      'that is too large',
      object({ a: { pattern: 'x' } }, { description: 'x'.repeat(300_000) }),
      /300\d\d\d characters/,
    ],
  ])('%s validates nothing, with the reason', async (_, schema, reason) => {
    const checking = schemaCheck(schema);
    expect(await checking.check({ a: 'b' })).toEqual({ unchecked: expect.stringMatching(reason) });
    expect(await checking.check({ a: 'b' })).toEqual({ unchecked: expect.stringMatching(reason) });
  });

  it('nested too deeply is rejected', () => {
    let deep: JsonObject = { type: 'string' };
    for (let i = 0; i < 20_000; i++) deep = { not: deep };
    expect(() => schemaCheck(deep)).toThrow(new HostileSchemaError('the schema is nested deeper than 64 levels'));
  });

  it.each<[string, JsonObject]>([
    ['at its top', { $async: true, type: 'object' }],
    ['in a property', object({ a: { $async: true, type: 'string' } })],
    ['in a branch', { anyOf: [{ type: 'object' }, { $async: false }] }],
    ['in a definition', { $defs: { a: { $async: true } }, $ref: '#/$defs/a' }],
  ])('with $async is rejected: %s', (_, schema) => {
    expect(() => schemaCheck(schema)).toThrow(HostileSchemaError);
  });

  it('may have the same $id as another one', async () => {
    const withId = (type: string): JsonObject => ({ $id: 'https://example.test/same', type });
    expect(await problem(withId('string'), 'a')).toBeNull();
    expect(await problem(withId('number'), 1)).toBeNull();
  });

  it('cannot be referred to by the schema of another tool', async () => {
    const inner: JsonObject = { $id: 'https://example.test/inner', type: 'string' };
    expect(
      await problem({ properties: { a: inner, b: { $ref: 'https://example.test/inner' } } }, { b: 'x' }),
    ).toBeNull();
    expect(await check({ properties: { b: { $ref: 'https://example.test/inner' } } }, {})).toEqual({
      unchecked: expect.stringContaining('its $ref "https://example.test/inner" is not supported'),
    });
  });

  it('may refer to itself', async () => {
    const tree: JsonObject = object({ value: { type: 'string' }, next: { $ref: '#' } });
    expect(await problem(tree, { value: 'a', next: { value: 'b' } })).toBeNull();
    expect(await problem(tree, { next: { value: 1 } })).toContain('arguments/next/value must be string');
  });

  it('may have a pattern that is only valid without the u flag', async () => {
    const schema: JsonObject = { type: 'string', pattern: '^a\\-b$' };
    expect(await problem(schema, 'a-b')).toBeNull();
    expect(await problem(schema, 'a+b')).toContain('must match pattern');
  });

  it('is cheap with references to its own definitions, unless they are circular', () => {
    const pydantic: JsonObject = {
      ...object({ at: { $ref: '#/$defs/Point' }, to: { $ref: '#/$defs/Point' } }),
      $defs: { Point: object({ x: { type: 'number' } }) },
    };
    expect(schemaCheck(pydantic).check({ at: { x: 1 }, to: { x: 'a' } })).toEqual({
      problem: 'arguments/to/x must be number',
    });
    const nested = object({ definitions: doubling(40) });
    expect(schemaCheck(nested).check({})).toBeInstanceOf(Promise);
    const circle: JsonObject = { $ref: '#/$defs/a', $defs: { a: { properties: { next: { $ref: '#/$defs/a' } } } } };
    expect(schemaCheck(circle).check({})).toBeInstanceOf(Promise);
  });

  it('that only refers to itself fails the validation and does not crash', async () => {
    expect(await problem({ $ref: '#' }, 1)).toContain('could not be validated');
  });
});

describe('above the size limits', () => {
  const list = (count: number, item: (at: number) => JsonValue) => Array.from({ length: count }, (_, at) => item(at));

  it('a schema is not used and not read to its end', async () => {
    const parts = schemaShape({ enum: list(400_000, () => ({ $async: true })) }, 64);
    expect(parts).toMatchObject({ tooLarge: true, cheap: false, async: false });
    const verdict = schemaCheck(object({ a: { enum: list(400_000, (at) => ({ at })) } })).check({ a: 1 });
    expect(verdict).toEqual({ unchecked: 'the schema has more than 100000 parts' });
  });

  it('a schema with many branches is compiled only on the schema thread', () => {
    const branches = (count: number) => object({ a: { oneOf: list(count, (at) => ({ const: at })) } });
    expect(schemaShape(branches(16), 64).cheap).toBe(true);
    expect(schemaShape(branches(17), 64).cheap).toBe(false);
  });

  it('a value is not serialized', async () => {
    const integers = object({ a: { items: { type: 'integer' } } });
    expect(await check(integers, { a: list(300_000, () => 'x') })).toEqual({
      unchecked: 'the value has more than 100000 entries, or a string of that length',
    });
  });
});

describe('a schema that takes too long', () => {
  it.each<[string, JsonObject, JsonValue]>([
    ['a pattern that backtracks without end', { pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`],
    ['a pattern of overlapping alternatives', { pattern: '^(a|a)*$' }, `${'a'.repeat(60)}!`],
    ['such a pattern for names', { patternProperties: { '^(a+)+$': true } }, { [`${'a'.repeat(60)}!`]: 1 }],
    ['branches that double at every level', doubling(40), 1],
  ])('does not block the main thread, and rejects arguments: %s', async (_, schema, value) => {
    const held = longestHold();
    const checking = new SchemaCheck(schema, 'arguments', hasty(1_000), new SchemaStrikes());
    expect(await checking.check(value)).toEqual({ problem: 'arguments could not be validated within 1000 ms' });
    expect(held()).toBeLessThan(HOLD_MS);
    expect(await problem({ type: 'number' }, 1)).toBeNull();
  });

  it('passes a result on', async () => {
    const schema = { pattern: '^(a+)+$' };
    const checking = new SchemaCheck(schema, 'structuredContent', hasty(1_000), new SchemaStrikes());
    const verdict = await checking.check(`${'a'.repeat(60)}!`);
    expect(verdict).toEqual({ unchecked: 'structuredContent could not be validated within 1000 ms' });
  });

  it('to compile validates nothing, and is compiled once', async () => {
    const wide = object(Object.fromEntries(Array.from({ length: 6_000 }, (_, at) => [`p${at}`, { enum: many(10) }])));
    const engineOf = hasty(20, { maxSchemaBytes: 16 * 1024 * 1024 });
    const checking = new SchemaCheck(wide, 'arguments', engineOf, new SchemaStrikes());
    const held = longestHold();
    expect(await checking.check({ p1: 3 })).toEqual({ unchecked: 'compiling the schema took longer than 20 ms' });
    expect(held()).toBeLessThan(HOLD_MS);
    expect(checking.check({ p1: 3 })).toEqual({ unchecked: 'compiling the schema took longer than 20 ms' });
  });

  it('ends expensive validation for its server after three timeouts, and for no other server', async () => {
    const strikes = new SchemaStrikes();
    const of = (strikesOf: SchemaStrikes) => new SchemaCheck({ pattern: '^(a+)+$' }, 'arguments', hasty(50), strikesOf);
    for (let count = 0; count < 3; count++) await of(strikes).check(`${'a'.repeat(60)}!`);
    expect(await of(strikes).check('b')).toEqual({
      unchecked: "validation against this server's schemas took too long before",
    });
    expect(await new SchemaCheck({ pattern: '^a$' }, 'arguments', engine, new SchemaStrikes()).check('a')).toBeNull();
  });
});

it('the thread rejects requests above its queue limit and after its end', async () => {
  const small = new SchemaThread({ maxQueued: 1, idleMs: 60_000 });
  const question = { key: 'k', schema: '{"type":"string"}', named: false, subject: 'arguments', value: '"a"' } as const;
  const [first, second, third] = [1, 2, 3].map(() => small.validate(question, 5_000));
  expect(await third).toBe('too_expensive');
  expect(await first).toEqual({ kind: 'checked', problem: null, unused: null });
  expect(await second).toEqual({ kind: 'checked', problem: null, unused: null });
  await small.close();
  expect(await small.validate(question, 5_000)).toBe('too_expensive');
});

/** Far below the time of these schemas. */
const HOLD_MS = 400;

/** Measures how long the event loop is blocked while it has a processor. Returns a function for the result. */
function longestHold(): () => number {
  const clock = () => performance.now() - starvedMs(process.pid);
  let last = clock();
  let longest = 0;
  const timer = setInterval(() => {
    const now = clock();
    longest = Math.max(longest, now - last);
    last = now;
  }, 5);
  return () => {
    clearInterval(timer);
    return longest;
  };
}

const many = (count: number) => Array.from({ length: count }, (_, at) => `value ${at}`);

/** Each definition refers to the next one twice, and the last one fails. */
function doubling(levels: number): JsonObject {
  const definitions: JsonObject = {};
  for (let i = 0; i < levels; i++)
    definitions[`d${i}`] = { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] };
  definitions[`d${levels}`] = { type: 'string' };
  return { $ref: '#/$defs/d0', $defs: definitions };
}
