import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { longest } from './longest-first.ts';

it('the files that start first are there', () => {
  expect(longest.filter((path) => !existsSync(new URL(`../${path}`, import.meta.url)))).toEqual([]);
});
