import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FdPages } from '../../../../src/runtime/guest/descriptors/table.ts';

it('holds what a map would hold, whatever is set, deleted and asked for', () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.constant({ kind: 'open' as const, at: 0 }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('close' as const), at: fc.nat(400) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('get' as const), at: fc.integer({ min: -3, max: 400 }) }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 600 }), (steps) => {
      const pages = new FdPages<string>();
      const map = new Map<number, string>();
      let next = 1000;
      for (const { kind, at } of steps) {
        if (kind === 'open') {
          pages.set(next, `entry ${next}`);
          map.set(next, `entry ${next}`);
          next++;
        } else if (kind === 'close') {
          pages.delete(1000 + at);
          map.delete(1000 + at);
        }
        expect(pages.get(1000 + at)).toBe(map.get(1000 + at));
      }
      expect(pages.size).toBe(map.size);
      expect(pages.numbers()).toEqual([...map.keys()]);
    }),
  );
});

it('finds no entry under numbers that were never assigned', () => {
  const pages = new FdPages<string>();
  pages.set(1000, 'first');
  for (const number of [-1, 0, 999, 1001, 2 ** 31 - 1, -(2 ** 31)]) expect(pages.get(number)).toBeUndefined();
});
