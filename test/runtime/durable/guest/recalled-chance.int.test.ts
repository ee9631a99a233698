import { expect, it } from 'vitest';
import { RecalledChance } from '../../../../src/runtime/durable/guest/recalled-chance.ts';

it('clocks and dice give what they gave, in order, and go on from there', () => {
  const random = Uint8Array.of(1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 9, 7);
  const chance = new RecalledChance({ wallMs: [1_000, 2_000], monotonicNs: [5n], random });
  expect([chance.wallMs(), chance.wallMs()]).toEqual([1_000, 2_000]);
  const later = chance.wallMs();
  expect(later).toBeGreaterThanOrEqual(2_000);
  expect(later).toBeLessThan(600_000);
  expect(chance.monotonicNs()).toBe(5n);
  expect(chance.monotonicNs()).toBeGreaterThanOrEqual(5n);
  const bytes = new Uint8Array(4);
  chance.fillRandom(bytes);
  expect([...bytes]).toEqual([1, 2, 3, 4]);
  expect(chance.randomI64()).toBe(9n);
  chance.fillRandom(bytes);
  expect(bytes[0]).toBe(7);
});

it('a timer fires, unless it is stopped', async () => {
  const chance = new RecalledChance({ wallMs: [], monotonicNs: [], random: new Uint8Array() });
  const stopped = chance.after(0, () => expect.unreachable());
  stopped();
  await new Promise<void>((resolve) => {
    chance.after(1, resolve);
  });
  expect(chance.wallMs()).toBeGreaterThan(1_600_000_000_000);
});
