import { expect, it } from 'vitest';
import { RecordedSources } from '../../../../src/runtime/durable/guest/sources.ts';

it('clocks and dice give what they gave, in order, and go on from there', () => {
  const random = Uint8Array.of(1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 9, 7);
  const sources = new RecordedSources({ wallMs: [1_000, 2_000], monotonicNs: [5n], random });
  expect([sources.wallMs(), sources.wallMs()]).toEqual([1_000, 2_000]);
  const later = sources.wallMs();
  expect(later).toBeGreaterThanOrEqual(2_000);
  expect(later).toBeLessThan(600_000);
  expect(sources.monotonicNs()).toBe(5n);
  expect(sources.monotonicNs()).toBeGreaterThanOrEqual(5n);
  const bytes = new Uint8Array(4);
  sources.fillRandom(bytes);
  expect([...bytes]).toEqual([1, 2, 3, 4]);
  expect(sources.randomI64()).toBe(9n);
  sources.fillRandom(bytes);
  expect(bytes[0]).toBe(7);
});

it('a timer fires, unless it is stopped', async () => {
  const sources = new RecordedSources({ wallMs: [], monotonicNs: [], random: new Uint8Array() });
  const stopped = sources.after(0, () => expect.unreachable());
  stopped();
  await new Promise<void>((resolve) => {
    sources.after(1, resolve);
  });
  expect(sources.wallMs()).toBeGreaterThan(1_600_000_000_000);
});
