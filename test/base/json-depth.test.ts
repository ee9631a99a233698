import { expect, it } from 'vitest';
import { tooDeepAt } from '../../src/base/json-depth.ts';

it.each([
  ['[[[]]]', 3, null],
  ['[[[]]]', 2, 2],
  ['[{"a":[]}]', 2, 6],
  ['[[],[],{}]', 2, null],
  ['["[[[[\\"[["]', 1, null],
  ['', 0, null],
])('%j beyond %i levels: %s', (text, maxDepth, at) => {
  expect(tooDeepAt(text, maxDepth)).toBe(at);
});
