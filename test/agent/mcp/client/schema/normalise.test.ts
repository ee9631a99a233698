import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SchemaCompiler } from '../../../../../src/agent/mcp/client/schema/compile.ts';
import { normalise, pointedAt } from '../../../../../src/agent/mcp/client/schema/normalise.ts';
import type { JsonObject, JsonValue } from '../../../../../src/base/json.ts';

const compiler = await SchemaCompiler.load();
const NAMES = /"(\$id|\$anchor)":/;

function validator(schema: JsonObject) {
  return compiler.compile(schema, NAMES.test(JSON.stringify(schema)), 'arguments');
}

/** The schema of an object with one property. */
const a = (schema: JsonValue): JsonObject => ({ type: 'object', properties: { a: schema } });

describe('a schema of another dialect keeps its meaning', () => {
  it.each<[string, JsonObject, JsonValue[], JsonValue[]]>([
    ['nullable with a type', a({ type: 'string', nullable: true, minLength: 2 }), [null, 'ab'], ['a', 1]],
    ['nullable with an enum', a({ type: 'string', enum: ['x'], nullable: true }), [null, 'x'], ['y']],
    ['nullable without a type', a({ nullable: true, minLength: 2 }), [null, 'ab', 1], ['a']],
    [
      'nullable beside a reference',
      { ...a({ $ref: '#/$defs/n', nullable: true }), $defs: { n: { type: 'number' } } },
      [null, 1],
      ['x'],
    ],
    ['nullable beside allOf', a({ allOf: [{ type: 'number' }], nullable: true }), [null, 1], ['x']],
    ['nullable that is false', a({ type: 'string', nullable: false }), ['x'], [null]],
    ['nullable of the whole', { ...a({ type: 'string' }), nullable: true }, ['x'], [1]],
    ['a boolean exclusiveMinimum', a({ minimum: 1, exclusiveMinimum: true }), [2], [1]],
    ['a boolean exclusiveMaximum', a({ maximum: 1, exclusiveMaximum: true }), [0], [1]],
    ['one that is false', a({ minimum: 1, exclusiveMinimum: false }), [1], [0]],
    ['one without a bound', a({ exclusiveMinimum: true }), [1], []],
    ['a numeric one', a({ exclusiveMinimum: 1 }), [2], [1]],
    ['the type any', a({ type: 'any' }), ['x', 1, null], []],
    ['any among others', a({ type: ['any', 'string'] }), ['x', 1, null], []],
    [
      'an example that looks like a schema',
      a({ type: 'string', example: { $id: 'x', $ref: 'y', type: 'z' } }),
      ['x'],
      [1],
    ],
    ['a format of any form', a({ type: 'string', format: { not: 'known' } }), ['x'], [1]],
    ['an id of draft 4', { id: 'https://example.test/x', ...a({ id: '#y', type: 'string' }) }, ['x'], [1]],
    [
      'two parts of one name',
      {
        $defs: { x: { $id: 'same', type: 'string' }, y: { $id: 'same', type: 'number' } },
        ...a({ $ref: '#/$defs/y' }),
      },
      [1],
      ['x'],
    ],
    [
      'a name that is a property',
      a({ type: 'object', properties: { $id: { type: 'string' } } }),
      [{ $id: 'x' }],
      [{ $id: 1 }],
    ],
    [
      'properties that are called like keywords',
      a({ properties: { nullable: { type: 'string' }, required: { type: 'string' }, type: { type: 'string' } } }),
      [{ type: 'x', nullable: 'x' }],
      [{ nullable: 1 }, { required: 1 }],
    ],
    [
      'a reference into components',
      {
        ...a({ $ref: '#/components/schemas/List[x y]' }),
        components: { schemas: { 'List[x y]': { type: 'string', nullable: true } } },
      },
      ['x', null],
      [1],
    ],
    [
      'a reference that is escaped',
      { ...a({ $ref: '#/$defs/x~1y%20z' }), $defs: { 'x/y z': { type: 'string' } } },
      ['x'],
      [1],
    ],
    [
      'a reference to a property',
      { type: 'object', properties: { b: { type: 'string', nullable: true }, a: { $ref: '#/properties/b' } } },
      ['x', null],
      [1],
    ],
    [
      'a tuple where 2020-12 is declared',
      { $schema: 'https://json-schema.org/draft/2020-12/schema', ...a({ items: [{ type: 'string' }] }) },
      [['x']],
      [[1]],
    ],
    [
      'a discriminator',
      a({ oneOf: [{ properties: { k: { const: 'x' } }, required: ['k'] }], discriminator: { propertyName: 'k' } }),
      [{ k: 'x' }],
      [{ k: 'y' }],
    ],
  ])('%s', (_, schema, right, wrong) => {
    const { problem, unused } = validator(schema);
    expect(unused).toBeNull();
    for (const value of right) expect([value, problem({ a: value })]).toEqual([value, null]);
    for (const value of wrong) expect([value, problem({ a: value })]).not.toEqual([value, null]);
  });

  it('required: true on properties', () => {
    const schema = { properties: { a: { type: 'string', required: true }, b: { required: false } }, required: ['c'] };
    const { problem, unused } = validator({ type: 'object', ...schema });
    expect(unused).toBeNull();
    expect(problem({ a: 'x', c: 1 })).toBeNull();
    expect(problem({ c: 1 })).toContain("'a'");
    expect(problem({ a: 'x' })).toContain("'c'");
  });

  it('a tree that refers to itself', () => {
    const tree: JsonObject = { ...a({ $ref: '#/$defs/T' }), $defs: { T: a({ $ref: '#/$defs/T', nullable: true }) } };
    const { problem } = validator(tree);
    expect(problem({ a: { a: { a: null } } })).toBeNull();
    expect(problem({ a: { a: { a: 1 } } })).toContain('arguments/a/a/a must be object');
  });
});

describe('meaningless parts are removed and reported, and the rest is validated', () => {
  it.each<[string, JsonObject, RegExp]>([
    ['a type that does not exist', { type: 'strnig' }, /its type "strnig"/],
    ['a type of another form', { type: { type: 'string' } }, /its type/],
    ['a reference that leads nowhere', { $ref: '#/definitions/Gone' }, /its \$ref "#\/definitions\/Gone"/],
    ['a reference to elsewhere', { $ref: 'https://example.test/x.json' }, /its \$ref/],
    ['a reference to no schema', { $ref: '#/properties/b/maxLength' }, /its \$ref/],
    ['a reference that is none', { $ref: 1 }, /its \$ref 1/],
    ['a keyword of the wrong form', { minLength: 'five' }, /its minLength "five"/],
    ['a broken pattern', { pattern: '(?i)x' }, /its pattern/],
    ['a broken pattern for names', { patternProperties: { '(': true } }, /its \( true/],
    ['an empty enum', { enum: [] }, /its enum \[\]/],
    ['an empty list of branches', { anyOf: [] }, /its anyOf \[\]/],
    ['a property that is no schema', { properties: { x: 'string' } }, /its x "string"/],
    ['required of another form', { required: 'x' }, /its required "x"/],
  ])('%s', (_, schema, told) => {
    const whole = { type: 'object', properties: { a: schema, b: { maxLength: 1 } } };
    const { problem, unused } = validator(whole);
    expect(unused).toMatch(told);
    expect(problem({ a: 'anything', b: 'x' })).toBeNull();
    expect(problem({ b: 'xx' })).toContain('arguments/b must NOT have more than 1 characters');
  });

  it('are reported with a length limit', () => {
    expect(normalise({ type: 'x'.repeat(10_000) }, { names: false }).unused?.length).toBeLessThan(200);
  });
});

it('JSON pointers are resolved', () => {
  const root: JsonObject = { 'a/b': { '~': [1, { c: 2 }] }, '': 3 };
  const cases = ['#', '#/a~1b/~0/1/c', '#/', '#/a~1b/~0/x', '#/toString', '#x', 'x', '#/%'];
  expect(cases.map((reference) => pointedAt(root, reference))).toEqual([
    root,
    2,
    3,
    ...Array.from({ length: 5 }, () => undefined),
  ]);
});

/** A value that is probably valid against its schema. */
interface Sample {
  readonly schema: JsonObject;
  readonly right: JsonValue;
}

const leaf: fc.Arbitrary<Sample> = fc.oneof(
  fc.record({
    right: fc.string(),
    schema: fc.constantFrom<JsonObject[]>({ type: 'string' }, { type: 'string', format: 'x' }, {}),
  }),
  fc.record({
    right: fc.integer({ min: 1 }),
    schema: fc.constantFrom<JsonObject[]>(
      { type: 'integer', minimum: 0, exclusiveMinimum: true },
      { type: 'number' },
      { type: 'any' },
    ),
  }),
  fc.record({
    right: fc.boolean(),
    schema: fc.constantFrom<JsonObject[]>(
      { type: 'boolean' },
      { $ref: '#/components/schemas/Flag' },
      { $ref: '#/nowhere' },
      { type: 'bool' },
    ),
  }),
  fc.record({
    right: fc.constant(null),
    schema: fc.constantFrom<JsonObject[]>(
      { type: 'string', nullable: true },
      { nullable: true },
      { nullable: true, allOf: [{ $ref: '#/components/schemas/Flag' }] },
      { nullable: true, enum: ['a'] },
    ),
  }),
);

const { sample } = fc.letrec<{ sample: Sample; object: Sample }>((tie) => ({
  sample: fc.oneof({ maxDepth: 4 }, leaf, tie('object')),
  object: fc
    .dictionary(
      fc.constantFrom('a', 'b', 'nullable', 'required', 'type', '$id', 'enum', '__proto__'),
      fc.tuple(tie('sample'), fc.boolean()),
      { maxKeys: 4 },
    )
    .map((children) => {
      const all = Object.entries(children) as [string, [Sample, boolean]][];
      const schema: JsonObject = {
        type: 'object',
        id: 'x',
        example: { $ref: 'x' },
        properties: Object.fromEntries(
          all.map(([name, [{ schema }, demanded]]) => [name, demanded ? { ...schema, required: true } : schema]),
        ),
      };
      return { schema, right: Object.fromEntries(all.map(([name, [{ right }]]) => [name, right])) };
    }),
}));

it('any OpenAPI schema can be used, accepts valid values, and is not modified', () => {
  const components = { schemas: { Flag: { type: 'boolean' } } };
  fc.assert(
    fc.property(sample, ({ schema, right }) => {
      const whole: JsonObject = { ...a(schema), components };
      const before = JSON.stringify(whole);
      for (const names of [true, false]) {
        const { problem } = compiler.compile(whole, names, 'arguments');
        expect(problem({ a: right })).toBeNull();
        expect(problem([])).not.toBeNull();
      }
      expect(JSON.stringify(whole)).toBe(before);
    }),
  );
});
