import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { slowest } from './slowest-first.ts';

it('lists only files that exist', () => {
  expect(slowest.filter((path) => !existsSync(new URL(`../../${path}`, import.meta.url)))).toEqual([]);
});
