import { expect, it } from 'vitest';
import { descriptorProblem } from '../../src/node/host-failure.ts';

it.each([
  [1024, 256, '256 slots may need 2304 file descriptors', 'is 1024', 'at most 96'],
  [300, 40, '40 slots may need 576 file descriptors', 'is 300', 'at most 5'],
])('limit %i with %i slots: names both numbers and the fix [node.descriptors]', (limit, slots, ...parts) => {
  for (const part of parts) expect(descriptorProblem(limit, slots)).toContain(part);
});

it('proposes no number of slots where the limit is too low for one', () => {
  expect(descriptorProblem(100, 1)).not.toContain('node.slots');
});

it.each([
  [2304, 256],
  [null, 20_000],
])('has no complaint about the limit %s with %i slots', (limit, slots) => {
  expect(descriptorProblem(limit, slots)).toBeNull();
});
