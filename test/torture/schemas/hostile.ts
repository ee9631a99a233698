import type { JsonObject, JsonValue } from '../../../src/base/json.ts';
import type { Random } from '../random.ts';
import { knownSchema } from './known.ts';

export interface HostileSchema {
  readonly schema: JsonObject;
  readonly value: JsonValue;
  /** Whether the tool is not even offered. @default it may be */
  readonly refused?: true;
}

type Attack = (random: Random) => HostileSchema;

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...more });
const numbered = (count: number, item: (at: number) => JsonValue): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, item(at)]));
const list = (count: number, item: (at: number) => JsonValue): JsonValue[] =>
  Array.from({ length: count }, (_, at) => item(at));
const nested = (levels: number, inner: JsonValue, wrap: (inner: JsonValue) => JsonValue): JsonValue =>
  levels === 0 ? inner : nested(levels - 1, wrap(inner), wrap);

const junk: readonly JsonValue[] = [
  null,
  true,
  false,
  -1,
  1e308,
  '',
  'http://127.0.0.1:1/x',
  '#',
  '#/',
  '__proto__',
  [],
  [[]],
  {},
  { $ref: '#' },
  { $ref: 'https://example.com/other' },
  { type: 'nothing' },
];
const keywords = [
  ...['type', 'properties', 'required', 'items', 'enum', 'const', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then'],
  ...['$ref', '$id', '$schema', '$anchor', '$defs', 'definitions', 'pattern', 'patternProperties', 'propertyNames'],
  ...['dependentRequired', 'dependentSchemas', 'minLength', 'maxItems', 'multipleOf', 'uniqueItems', 'contains'],
  ...['prefixItems', 'additionalProperties', 'unevaluatedProperties', 'unevaluatedItems', '$dynamicRef', 'format'],
  ...[
    '$recursiveRef',
    '$vocabulary',
    '$comment',
    'nullable',
    'discriminator',
    '$data',
    'constructor',
    'hasOwnProperty',
  ],
];

/** Attacks that cost little to try. */
export const quick: Readonly<Record<string, Attack>> = {
  '$async at some level': (random) => {
    const inner = nested(random.below(20), { $async: random.pick(junk) }, (inside) =>
      random.pick<JsonValue>([{ items: inside }, { properties: { a: inside } }, { anyOf: [inside] }, { x: inside }]),
    );
    return { schema: object({ a: inner }), value: { a: 1 }, refused: true };
  },
  'nested too deeply': (random) => ({
    schema: nested(65 + random.below(2_000), { type: 'string' }, (inner) => ({ items: inner })) as JsonObject,
    value: {},
    refused: true,
  }),
  'junk for keywords': (random) => ({
    schema: object(
      numbered(1 + random.below(4), () => ({ [random.pick(keywords)]: random.pick(junk) })),
      {
        [random.pick(keywords)]: random.pick(junk),
      },
    ),
    value: { p0: random.pick(junk), p1: random.pick(junk) },
  }),
  'a good schema with a part exchanged': (random) => {
    const { schema, good } = knownSchema(random);
    return { schema: exchanged(random, schema) as JsonObject, value: good };
  },
  'a schema of itself, and a deep value': (random) => ({
    schema: object({ a: { $ref: '#' } }, { additionalProperties: false }),
    value: nested(random.below(3_000), {}, (inner) => ({ a: inner })),
  }),
  'names of every object': () => ({
    schema: JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}}}',
    ),
    value: JSON.parse('{"__proto__":1,"constructor":"x"}'),
  }),
  'code in names': (random) => {
    const name = random.pick([
      '"]; process.exit(); //',
      '`$' + '{process.exit()}`',
      "'+process.exit()+'",
      '\u2028process.exit()',
    ]);
    const part = { [random.pick(['const', 'pattern', '$id', '$anchor', 'description', 'format', '$comment'])]: name };
    return {
      schema: object({ [name]: part, [`${name}\n`]: { enum: [name] } }, { required: [name] }),
      value: { [name]: name },
    };
  },
  'a number that is none': (random) => ({
    schema: object({
      a: { type: 'number', multipleOf: random.pick([0, 5e-324, 1e308, -1]), maximum: Number.POSITIVE_INFINITY },
    }),
    value: { a: random.pick([1e308, 5e-324, 0, 1e-7]) },
  }),
  'hundreds of branches': (random) => ({
    schema: object({
      a: {
        [random.pick(['anyOf', 'oneOf', 'allOf'])]: list(15 + random.below(random.chance(8) ? 300 : 30), (at) => ({
          const: at,
        })),
      },
    }),
    value: { a: 'x' },
  }),
};

/** Attacks that take time of the thread for schemas, or of this one if it is not careful. */
export const dear: Readonly<Record<string, Attack>> = {
  'references in a circle': (random) => ({
    schema: object({ a: { $ref: '#/$defs/a' } }, { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }),
    value: { a: random.pick(junk) },
  }),
  'a pattern that never ends': (random) => ({
    schema: object({ a: { type: 'string', pattern: random.pick(['^(a+)+$', '^(a|a)*$', '^(.*a){20}$', '(x+x+)+y']) } }),
    value: { a: `${'a'.repeat(30 + random.below(40))}${'x'.repeat(40)}!` },
  }),
  'a pattern for names that never ends': () => ({
    schema: { type: 'object', patternProperties: { '^(a+)+$': { type: 'string' } } },
    value: { [`${'a'.repeat(40)}!`]: 1 },
  }),
  'references that double': (random) => {
    const levels = 20 + random.below(10);
    const twice = (at: number): JsonValue => ({ allOf: [{ $ref: `#/$defs/p${at}` }, { $ref: `#/$defs/p${at}` }] });
    const $defs = { ...numbered(levels, (at) => (at === 0 ? { type: 'string' } : twice(at - 1))) };
    return { schema: object({ a: { $ref: `#/$defs/p${levels - 1}` } }, { $defs }), value: { a: 'x' } };
  },
  'a long enum and a long list': (random) => ({
    schema: object({ a: { items: { enum: list(5_000 + random.below(10_000), (at) => `value ${at}`) } } }),
    value: { a: list(20_000, (at) => `other ${at}`) },
  }),
  'unlike items without number': (random) => ({
    schema: object({ a: { uniqueItems: true } }),
    value: { a: list(2_000 + random.below(3_000), (at) => ({ at })) },
  }),
  'properties without number': (random) => ({
    schema: object(numbered(2_000 + random.below(4_000), (at) => ({ type: 'string', minLength: at }))),
    value: numbered(100, () => 'x'),
  }),
  'names looked at one by one': (random) => ({
    schema: { type: 'object', propertyNames: { pattern: '^p[0-9]+$', not: { const: 'p1' } } },
    value: numbered(1_000 + random.below(20_000), () => 0),
  }),
  'a dynamic reference to itself': () => ({
    schema: {
      $id: 'https://example.com/tree',
      $dynamicAnchor: 'node',
      type: 'object',
      properties: { a: { type: 'array', items: { $dynamicRef: '#node' } } },
      unevaluatedProperties: false,
    },
    value: nested(400, {}, (inner) => ({ a: [{}, inner] })),
  }),
  'a long text': (random) => ({
    schema: object({ a: { type: 'string', maxLength: 10 } }),
    value: { a: '😀'.repeat(100_000 + random.below(900_000)) },
  }),
};

/** As large as a message of a server may be. */
export const huge: Readonly<Record<string, Attack>> = {
  'a schema of megabytes in one text': () => ({
    schema: object({ a: { type: 'string', description: 'x'.repeat(7_000_000) } }),
    value: { a: 1 },
  }),
  'a schema of parts without number': () => ({
    schema: object({ a: { enum: list(300_000, (at) => ({ at })) } }),
    value: { a: 1 },
  }),
  'a schema of thousands of properties': () => ({ schema: object(numbered(20_000, () => ({}))), value: {} }),
  'a result of megabytes in one text': () => ({
    schema: object({ a: { type: 'string' } }),
    value: { a: 'é'.repeat(8_000_000) },
  }),
  'a result of millions of items': () => ({
    schema: object({ a: { type: 'array', items: { type: 'integer' } } }),
    value: { a: list(3_000_000, (at) => at) },
  }),
  'a result that is nested without end': () => ({
    schema: object({ a: { type: 'array' } }),
    value: { a: nestedLists(90_000) },
  }),
  'a result of nested lists': () => ({
    schema: object({ a: { type: 'array' } }),
    value: { a: list(700_000, () => [[], {}]) },
  }),
};

function nestedLists(levels: number): JsonValue {
  let inner: JsonValue = [];
  for (let level = 0; level < levels; level++) inner = [inner];
  return inner;
}

/** A part of it, wherever that is, is something else. */
function exchanged(random: Random, node: JsonValue): JsonValue {
  if (typeof node !== 'object' || node === null || random.chance(4)) return random.pick(junk);
  if (Array.isArray(node)) return node.map((item, at) => (at === 0 ? exchanged(random, item) : item));
  const names = Object.keys(node);
  if (names.length === 0) return random.pick(junk);
  const name = random.pick(names);
  return { ...node, [name]: exchanged(random, node[name] as JsonValue) };
}
