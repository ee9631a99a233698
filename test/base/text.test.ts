import { describe, expect, it } from 'vitest';
import { cutText, isHeaderName, isHeaderValue, splitOnce, startOf, unitsThatFit } from '../../src/base/text.ts';

describe('a text that is cut', () => {
  it.each([
    ['', 3, ''],
    ['abc', 3, 'abc'],
    ['abcd', 3, 'abc…'],
    ['ab😀', 4, 'ab😀'],
    ['ab😀', 3, 'ab…'],
    ['😀😀', 1, '…'],
    ['abc', 0, '…'],
  ])('%j to %i units is %j', (text, maxUnits, cut) => {
    expect(cutText(text, maxUnits)).toBe(cut);
    expect(startOf(text, maxUnits)).toBe(cut.replace('…', ''));
  });
});

it.each([
  ['plain', 3, 3],
  ['"\n\u0001', 2, 1],
  ['"\n\u0001', 9, 2],
  ['"\n\u0001', 10, 3],
  ['é€😀', 9, 4],
  ['é€😀', 8, 2],
  ['\ud800', 5, 0],
])('of %j as JSON %i bytes hold %i units', (text, maxBytes, units) => {
  expect(unitsThatFit(text, maxBytes)).toBe(units);
  expect(Buffer.byteLength(JSON.stringify(text.slice(0, units))) - 2).toBeLessThanOrEqual(maxBytes);
});

it.each([
  ['NAME=VALUE', '=', ['NAME', 'VALUE']],
  ['a=b=c', '=', ['a', 'b=c']],
  ['a=', '=', ['a', '']],
  ['=a', '=', ['', 'a']],
  ['a', '=', ['a', null]],
  ['a::b', '::', ['a', 'b']],
])('%j at %j is %j', (text, separator, parts) => {
  expect(splitOnce(text, separator)).toEqual(parts);
});

it.each([
  ['X-Api-Key', true],
  ["!#$%&'*+.^_`|~", true],
  ['', false],
  ['a b', false],
  ['a:', false],
  ['ä', false],
  ['a\r\n', false],
])('the name %j: %s', (name, valid) => {
  expect(isHeaderName(name)).toBe(valid);
});

it.each([
  ['', true],
  ['Bearer x\ty', true],
  ['é', true],
  ['€', false],
  ['a\nb', false],
  ['a\r', false],
  ['\0', false],
  ['\x7f', false],
])('the value %j: %s', (value, valid) => {
  expect(isHeaderValue(value)).toBe(valid);
});
