import { expect, it } from 'vitest';
import { calls } from '../../../src/runtime/abi/calls.ts';
import { GuestCounters } from '../../../src/runtime/host/guest-counters.ts';
import { COMPUTED_MS_INDEX, COUNTER_GUESTS, COUNTERS } from '../../../src/runtime/port/guest-spec.ts';

it('each guest has its own counters, of which the next one in its place sees nothing', () => {
  const blocks: Float64Array[] = [];
  const counters = new GuestCounters((block, shared) => {
    expect(block).toBe(blocks.length);
    blocks.push(shared);
  });
  const guests = COUNTER_GUESTS + 3;
  const places = Array.from({ length: guests }, () => counters.take());
  expect(new Set(places).size).toBe(guests);
  expect(blocks.length).toBe(2);
  // As the thread finds them.
  const of = (place: number) => {
    const at = (place % COUNTER_GUESTS) * COUNTERS;
    return (blocks[Math.floor(place / COUNTER_GUESTS)] as Float64Array).subarray(at, at + COUNTERS);
  };
  for (const place of places) {
    of(place)[0] = place + 1;
    of(place)[COMPUTED_MS_INDEX] = place;
  }
  const [first] = calls;
  for (const place of places) {
    expect(counters.hostcalls(place)).toEqual({ [first.name]: place + 1 });
    expect(counters.computedMs(place)).toBe(place);
  }
  of(7)[COMPUTED_MS_INDEX] = Number.NaN;
  of(7)[0] = 1.5;
  expect(counters.computedMs(7)).toBe(null);
  expect(counters.hostcalls(7)).toEqual({});
  counters.give(7);
  expect(counters.take()).toBe(7);
  expect(counters.hostcalls(7)).toEqual({});
  expect(counters.computedMs(7)).toBe(0);
});
