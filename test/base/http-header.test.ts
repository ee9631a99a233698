import { expect, it } from 'vitest';
import { isHeaderName, isHeaderValue } from '../../src/base/http-header.ts';

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
