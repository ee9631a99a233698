import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LayeredMap } from '../../src/registry-client/snapshot.ts';

const key = fc.integer({ min: 0, max: 300 }).map(String);
const change = fc.tuple(key, fc.option(fc.record({ x: fc.integer() }), { nil: null }));
const changes = fc.array(change, { maxLength: 60 });

it('equals a Map after the same changes, and earlier versions do not change', () => {
  fc.assert(
    fc.property(fc.array(changes, { maxLength: 12 }), (steps) => {
      const plain = new Map<string, { x: number }>();
      let layered = LayeredMap.of<{ x: number }>([]);
      const versions: [LayeredMap<{ x: number }>, [string, { x: number }][]][] = [];
      for (const step of steps) {
        layered = layered.with(step);
        for (const [id, value] of step) {
          if (value === null) plain.delete(id);
          else plain.set(id, value);
        }
        versions.push([layered, [...plain]]);
      }
      for (const [version, entries] of versions) {
        const expected = new Map(entries);
        expect(new Map(version)).toEqual(expected);
        expect(version.size).toBe(expected.size);
        expect([...version.keys()].sort()).toEqual([...expected.keys()].sort());
        expect(new Set(version.values())).toEqual(new Set(expected.values()));
        for (let i = 0; i <= 300; i += 7) {
          expect(version.get(String(i))).toBe(expected.get(String(i)));
          expect(version.has(String(i))).toBe(expected.has(String(i)));
        }
        const seen = new Map<string, { x: number }>();
        version.forEach((value, id, map) => {
          expect(map).toBe(version);
          seen.set(id, value);
        });
        expect(seen).toEqual(expected);
      }
    }),
  );
});
