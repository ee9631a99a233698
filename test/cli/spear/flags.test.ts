import { expect, it } from 'vitest';
import { age, table } from '../../../src/cli/formatting.ts';

it('lines up columns, and lets no control character through', () => {
  expect(
    table(
      ['ID', 'TEXT'],
      [
        ['long-id', 'a\u001b[31mb'],
        ['x', ''],
      ],
    ),
  ).toBe('ID       TEXT\nlong-id  a [31mb\nx\n');
});

it.each([
  [0, '0s'],
  [999, '0s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [7_200_000, '2h'],
  [90_000_000, '1d'],
])('%d ms is %s', (ms, text) => {
  expect(age(ms)).toBe(text);
});
