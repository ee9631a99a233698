import { beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/base/json.ts';
import { SchemaCompiler } from '../../src/pool/validate.ts';
import { call, openPool, parsed, stdioRecord } from './pool-samples.ts';

const limits = { maxSchemaBytes: 256 * 1024, maxSchemaDepth: 64, validationTimeoutMs: 250 };
let compiler: SchemaCompiler;

beforeAll(async () => {
  compiler = await SchemaCompiler.load(limits);
});

const check = (schema: JsonObject, value: JsonValue) => compiler.compile(schema, 'arguments')(value);
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
    ['a keyword nobody knows', object({ a: { 'x-order': 1, type: 'string' } }), { a: 'b' }, null],
  ])('are checked: %s [pool.arguments.validated]', (_, schema, value, problem) => {
    if (problem === null) expect(check(schema, value)).toBeNull();
    else expect(check(schema, value)).toContain(problem);
  });

  it('never appear in what is said about them [pool.arguments.validated] [pool.secrets.redacted]', () => {
    expect(check(object({ a: { type: 'number', maximum: 1 } }), { a: 's3cret' })).not.toContain('s3cret');
    expect(check(object({ a: { const: 'x' } }), { a: 's3cret' })).not.toContain('s3cret');
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
  ])('%s is understood [pool.schema.dialects]', (_, schema) => {
    expect(check(schema, ['a', 1])).toBeNull();
    expect(check(schema, ['a', 'b'])).toContain('arguments/1 must be number');
  });

  it.each<[string, JsonValue, RegExp]>([
    ['with a type that does not exist', object({ a: { type: 'strnig' } }), /type must be/],
    ['with a keyword of the wrong form', object({ a: { minLength: 'five' } }), /minLength/],
    ['with a broken pattern', object({ a: { pattern: '(' } }), /regular expression/i],
    [
      'that refers to somewhere else',
      object({ a: { $ref: 'https://example.test/x.json' } }),
      /can't resolve reference/,
    ],
    ['that is no object', 'text', /not an object/],
    ['that is too large', object({}, { description: 'x'.repeat(300_000) }), /300\d\d\d bytes/],
  ])('%s is refused [pool.schema.invalid]', (_, schema, reason) => {
    expect(() => compiler.compile(schema, 'arguments')).toThrow(reason);
  });

  it('nested too deeply is refused, however deep [pool.schema.invalid]', () => {
    let deep: JsonObject = { type: 'string' };
    for (let i = 0; i < 20_000; i++) deep = { not: deep };
    expect(() => compiler.compile(deep, 'arguments')).toThrow(/nested deeper than 64/);
  });

  it('may have the same $id as another one [pool.schema.dialects]', () => {
    const withId = (type: string): JsonObject => ({ $id: 'https://example.test/same', type });
    expect(check(withId('string'), 'a')).toBeNull();
    expect(check(withId('number'), 1)).toBeNull();
  });

  it('is not found by the schema of another tool [pool.schema.invalid]', () => {
    const inner: JsonObject = { $id: 'https://example.test/inner', type: 'string' };
    expect(check({ properties: { a: inner, b: { $ref: 'https://example.test/inner' } } }, { b: 'x' })).toBeNull();
    expect(() => check({ properties: { b: { $ref: 'https://example.test/inner' } } }, {})).toThrow(
      /can't resolve reference/,
    );
  });

  it('may refer to itself [pool.schema.dialects]', () => {
    const tree: JsonObject = object({ value: { type: 'string' }, next: { $ref: '#' } });
    expect(check(tree, { value: 'a', next: { value: 'b' } })).toBeNull();
    expect(check(tree, { next: { value: 1 } })).toContain('arguments/next/value must be string');
  });

  it('may have a pattern that is only valid without the u flag [pool.schema.dialects]', () => {
    const schema: JsonObject = { type: 'string', pattern: '^a\\-b$' };
    expect(check(schema, 'a-b')).toBeNull();
    expect(check(schema, 'a+b')).toContain('must match pattern');
  });

  it.each<[string, JsonObject, JsonValue]>([
    ['a pattern that backtracks without end', { pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`],
    ['a pattern of overlapping alternatives', { pattern: '^(a|a)*$' }, `${'a'.repeat(60)}!`],
    ['such a pattern for names', { patternProperties: { '^(a+)+$': true } }, { [`${'a'.repeat(60)}!`]: 1 }],
    ['branches that double at every level', doubling(40), 1],
  ])('cannot keep the host busy: %s [pool.schema.bounded-time]', (_, schema, value) => {
    const startedAt = performance.now();
    expect(check(schema, value)).toContain('could not be checked within 250 ms');
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(check({ type: 'number' }, 1)).toBeNull();
  });

  it('that only refers to itself is a failed check, not a crash [pool.schema.bounded-time]', () => {
    expect(check({ $ref: '#' }, 1)).toContain('could not be checked');
  });
});

/** Each definition asks for the next one twice, and the last one fails. */
function doubling(levels: number): JsonObject {
  const definitions: JsonObject = {};
  for (let i = 0; i < levels; i++)
    definitions[`d${i}`] = { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] };
  definitions[`d${levels}`] = { type: 'string' };
  return { $ref: '#/$defs/d0', $defs: definitions };
}

describe('a server with odd schemas', () => {
  const record = stdioRecord('schemas', 'schemas.mjs');

  it('loses the tools that cannot be used, and keeps the others [pool.schema.invalid]', async () => {
    const { pool, log } = openPool();
    const list = await pool.listTools(record);
    expect(list.tools.map(({ name }) => name)).toEqual([
      'draft07',
      'draft2020',
      'undeclared07',
      'same_id_1',
      'same_id_2',
      'loose_pattern',
      'backtracking',
      'self',
      'output_right',
      'output_wrong',
    ]);
    expect(list.dropped.map(({ name, reason }) => [name, reason])).toEqual([
      ['bad_type', 'schema_invalid'],
      ['bad_pattern', 'schema_invalid'],
      ['remote_ref', 'schema_invalid'],
      ['not_object', 'schema_invalid'],
      ['no_schema', 'schema_invalid'],
      ['deep', 'schema_invalid'],
      ['large', 'schema_invalid'],
      ['output_broken', 'schema_invalid'],
      ['draft07', 'name_collision'],
      ['', 'schema_invalid'],
    ]);
    expect(log.filter(({ event }) => event === 'tool_dropped')).toHaveLength(10);
    const outcome = await call(pool, record, 'bad_type');
    expect(outcome).toMatchObject({ ok: false, dispatched: false, error: { code: 'mcp_tool_error' } });
  });

  it('is only called with arguments that its schema allows [pool.arguments.validated]', async () => {
    const { pool } = openPool();
    expect((await call(pool, record, 'draft07', { pair: ['a', 1], item: 'a' })).ok).toBe(true);
    const refused = await call(pool, record, 'draft07', { item: 'c' });
    expect(refused).toMatchObject({ ok: false, dispatched: false });
    expect(parsed(refused).error).toEqual({
      code: 'mcp_invalid_arguments',
      message: 'tool "draft07": arguments/item must be equal to one of the allowed values: ["a","b"]',
      retryable: false,
    });
    const slow = await call(pool, record, 'backtracking', { name: `${'a'.repeat(60)}!` });
    expect(slow).toMatchObject({ dispatched: false, error: { code: 'mcp_invalid_arguments' } });
  });

  it('has its structured results checked [pool.result.output-schema]', async () => {
    const { pool } = openPool();
    expect(parsed(await call(pool, record, 'output_right'))).toEqual({ content: [], structuredContent: { n: 1 } });
    const wrong = await call(pool, record, 'output_wrong');
    expect(wrong).toMatchObject({ ok: false, dispatched: true, error: { code: 'mcp_tool_error' } });
    expect(parsed(wrong).error?.message).toContain('structuredContent/n must be integer');
  });
});
