import { expect, it } from 'vitest';
import { splitOnce } from '../../src/base/split-once.ts';

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
