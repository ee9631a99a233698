import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { repairedArguments, repairsOf } from '../../../../../src/agent/mcp/client/schema/arguments.ts';
import type { JsonObject } from '../../../../../src/base/json.ts';

const object = (properties: JsonObject, required: string[] = [], more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  required,
  ...more,
});

function prepared(schema: JsonObject, args: JsonObject): JsonObject {
  const repairs = repairsOf(schema);
  return repairs === null ? args : repairedArguments(args, repairs);
}

describe('a required property that is missing gets its default', () => {
  const schema = object({ a: { type: 'string', default: 'x' }, b: { default: 1 }, c: { type: 'string' } }, ['a', 'c']);

  it.each<[string, JsonObject, JsonObject]>([
    ['it is missing', { c: 'z' }, { a: 'x', c: 'z' }],
    ['it is there', { a: 'y' }, { a: 'y' }],
    ['it is null, which is for the check to refuse', { a: null }, { a: null }],
  ])('%s', (_, args, expected) => expect(prepared(schema, args)).toEqual(expected));

  it('also if the property itself has required: true', () => {
    expect(prepared(object({ a: { required: true, default: false } }), {})).toEqual({ a: false });
  });

  it('is not set for the name __proto__', () => {
    const evil = JSON.parse('{"properties":{"__proto__":{"default":{"x":1}}},"required":["__proto__"]}') as JsonObject;
    expect(repairsOf(evil)).toBeNull();
  });
});

describe('a null for an optional property is removed', () => {
  it.each<[string, JsonObject, boolean]>([
    ['of a type', { type: 'string' }, true],
    ['of some types', { type: ['string', 'number'] }, true],
    ['of some types, null among them', { type: ['string', 'null'] }, false],
    ['that is nullable', { type: 'string', nullable: true }, false],
    ['of a list of values', { enum: ['a'] }, true],
    ['of a list of values with null', { enum: ['a', null] }, false],
    ['of one of several kinds', { anyOf: [{ type: 'string' }, { type: 'number' }] }, true],
    ['of one of several kinds with null', { oneOf: [{ type: 'string' }, { type: 'null' }] }, false],
    ['of all kinds at once', { allOf: [{}, { type: 'string' }] }, true],
    ['of a definition', { $ref: '#/$defs/text' }, true],
    ['of a definition that is nullable here', { $ref: '#/$defs/text', nullable: true }, false],
    ['of a definition that is nowhere', { $ref: '#/$defs/gone' }, false],
    ['of a definition that goes round in a circle', { $ref: '#/$defs/round' }, false],
    ['of any kind', {}, false],
    ['of the type any', { type: 'any' }, false],
    ['of a type that is unknown', { type: 'strnig' }, false],
  ])('%s: %j', (_, property, isTaken) => {
    const $defs = { text: { type: 'string' }, round: { $ref: '#/$defs/round' } };
    const schema = object({ a: property, b: {} }, [], { $defs });
    expect(prepared(schema, { a: null, b: null, c: null })).toEqual(
      isTaken ? { b: null, c: null } : { a: null, b: null, c: null },
    );
    expect(prepared(object({ a: property }, ['a'], { $defs }), { a: null })).toEqual({ a: null });
  });
});

it('nested objects are repaired too, by their definitions', () => {
  const point = object({ x: { default: 0 }, label: { type: 'string' } }, ['x']);
  const schema = object({ at: { $ref: '#/$defs/Point' }, to: point }, [], { $defs: { Point: point } });
  const given = { at: { label: null }, to: { x: 1 }, other: { label: null } };
  expect(prepared(schema, given)).toEqual({ at: { x: 0 }, to: { x: 1 }, other: { label: null } });
  expect(given.at).toEqual({ label: null });
});

it('reading a circular or very large schema ends', () => {
  const circle: JsonObject = { ...object({ next: { $ref: '#' }, a: { type: 'string' } }) };
  expect(prepared(circle, { next: { a: null, next: { a: null } } })).toEqual({ next: { next: {} } });
  const wide = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`p${at}`, { $ref: '#' }]));
  expect(prepared(object({ ...wide, last: { type: 'string' } }), { last: null })).toEqual({});
  const $defs: JsonObject = { d3: { type: 'string' } };
  for (let at = 0; at < 3; at++)
    $defs[`d${at}`] = { anyOf: Array.from({ length: 1_000 }, () => ({ $ref: `#/$defs/d${at + 1}` })) };
  const branching = object({ a: { $ref: '#/$defs/d0' } }, [], { $defs });
  expect(prepared(branching, { a: null })).toEqual({ a: null });
});

it('returns the same object if nothing needs a repair, and never changes its input', () => {
  const schema = object({ a: { type: 'string' }, b: object({ c: { default: 1 } }, ['c']) }, []);
  const clean = { a: 'x', b: { c: 2 }, z: null };
  expect(prepared(schema, clean)).toBe(clean);
  expect(repairsOf(object({ a: {} }))).toBeNull();
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.constantFrom('a', 'b', '__proto__'),
        fc.constantFrom<JsonObject[string][]>(null, 'x', {}, { c: null }),
      ),
      (args) => {
        const before = JSON.stringify(args);
        const once = prepared(schema, args as JsonObject);
        expect(JSON.stringify(args)).toBe(before);
        expect(prepared(schema, once)).toBe(once);
      },
    ),
  );
});
