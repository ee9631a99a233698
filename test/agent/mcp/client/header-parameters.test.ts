import { describe, expect, it } from 'vitest';
import {
  callHeaders,
  encodedHeader,
  headerParameters,
  NO_HEADERS,
} from '../../../../src/agent/mcp/client/header-parameters.ts';
import type { JsonObject } from '../../../../src/base/json.ts';

const text = (header: string, type = 'string'): JsonObject => ({ type, 'x-mcp-header': header });
const object = (properties: JsonObject): JsonObject => ({ type: 'object', properties });

describe('parameters that are sent as headers', () => {
  it('are found at any depth, and their values where they are given', () => {
    const schema = object({ a: text('A'), b: object({ c: text('Deep', 'integer') }), d: text('D', 'boolean'), e: {} });
    const parameters = headerParameters(schema);
    expect(parameters.map(({ header }) => header)).toEqual(['mcp-param-a', 'mcp-param-deep', 'mcp-param-d']);
    expect(callHeaders(parameters, { a: 'x', b: { c: 7 }, d: false, e: 'e' })).toEqual({
      'mcp-param-a': 'x',
      'mcp-param-deep': '7',
      'mcp-param-d': 'false',
    });
    expect(callHeaders(parameters, { a: null, b: 'none' })).toEqual({});
    expect(callHeaders(parameters, { b: { c: 2 ** 60 }, a: ['x'] })).toEqual({});
    expect(callHeaders([], { a: 'x' })).toBe(NO_HEADERS);
  });

  it('may be called like the mark itself', () => {
    expect(headerParameters(object({ 'x-mcp-header': { type: 'string' } }))).toEqual([]);
  });

  it.each([
    ['a name that is empty', object({ a: text('') }), 'is not a valid header name'],
    ['a name with a space', object({ a: text('a b') }), 'is not a valid header name'],
    ['a name that ends a line', object({ a: text('a\r\nb') }), 'is not a valid header name'],
    ['a name that is none', object({ a: { type: 'string', 'x-mcp-header': 7 } }), 'is not a valid header name'],
    ['one name twice', object({ a: text('x'), b: text('X') }), 'another property uses the same header name'],
    ['a number', object({ a: text('x', 'number') }), 'allowed only on a string, an integer or a boolean'],
    ['an object', object({ a: text('x', 'object') }), 'allowed only on a string, an integer or a boolean'],
    ['the schema itself', { ...object({}), ...text('x', 'object') }, 'allowed only on plain properties'],
    ['items', object({ a: { type: 'array', items: text('x') } }), 'allowed only on plain properties'],
    ['a choice', { anyOf: [object({ a: text('x') })] }, 'allowed only on plain properties'],
    ['a definition', { $defs: { a: text('x') } }, 'allowed only on plain properties'],
  ])('are refused: %s', (_what, schema, message) => {
    expect(() => headerParameters(schema)).toThrow(message);
  });

  it.each([
    ['plain text', 'plain text'],
    ['', '=?base64??='],
    [' padded ', '=?base64?IHBhZGRlZCA=?='],
    ['a\r\nb', '=?base64?YQ0KYg==?='],
    ['世', '=?base64?5LiW?='],
    ['=?base64?YQ==?=', '=?base64?PT9iYXNlNjQ/WVE9PT89?='],
  ])('write %j as %j', (value, header) => {
    expect(encodedHeader(value)).toBe(header);
  });
});
