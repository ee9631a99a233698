import { describe, expect, it } from 'vitest';
import { WakeTimes } from '../../src/node/parked-runs.ts';

const time = (id: string, atMs: number) => ({ namespace: 'default', id, atMs });
const idsOf = (times: readonly { readonly id: string }[]) => times.map(({ id }) => id);

describe('wake-up times', () => {
  it('come soonest first, in whatever order they were added', () => {
    const times = new WakeTimes(10);
    for (const [id, atMs] of [
      ['c', 30],
      ['a', 10],
      ['d', 40],
      ['b', 20],
    ] as const)
      times.add(time(id, atMs));
    expect(times.next).toBe(10);
    expect(idsOf(times.takeDue(100, 10))).toEqual(['a', 'b', 'c', 'd']);
    expect(times.next).toBeNull();
  });

  it('of the same moment come in the order in which they were added', () => {
    const times = new WakeTimes(10);
    for (const id of ['b', 'a', 'c']) times.add(time(id, 10));
    expect(idsOf(times.takeDue(10, 10))).toEqual(['b', 'a', 'c']);
  });

  it('are taken when they are due, as many at once as asked for', () => {
    const times = new WakeTimes(10);
    for (const [id, atMs] of [
      ['a', 10],
      ['b', 20],
      ['c', 21],
    ] as const)
      times.add(time(id, atMs));
    expect(times.takeDue(9, 10)).toEqual([]);
    expect(idsOf(times.takeDue(20, 1))).toEqual(['a']);
    expect(idsOf(times.takeDue(20, 10))).toEqual(['b']);
    expect(times.next).toBe(21);
  });

  it('are kept once for each run and time', () => {
    const times = new WakeTimes(2);
    for (let added = 0; added < 5; added++) times.add(time('a', 10));
    expect([idsOf(times.takeDue(10, 10)), times.isPartial]).toEqual([['a'], false]);
  });

  it.each([
    ['later', 10, 20],
    ['earlier', 20, 10],
  ])('that a %s one of the same run replaces wake it once, at the new time', (_, first, second) => {
    const times = new WakeTimes(10);
    times.add(time('a', first));
    times.add(time('a', second));
    expect(idsOf(times.takeDue(second - 1, 10))).toEqual([]);
    expect(idsOf(times.takeDue(second, 10))).toEqual(['a']);
    expect(times.takeDue(100, 10)).toEqual([]);
  });

  it('can be added again after they were taken', () => {
    const times = new WakeTimes(10);
    times.add(time('a', 10));
    times.takeDue(10, 10);
    times.add(time('a', 10));
    expect(idsOf(times.takeDue(10, 10))).toEqual(['a']);
  });

  it('beyond the bound are dropped, the latest first, and that is remembered', () => {
    const times = new WakeTimes(2);
    times.add(time('a', 30));
    times.add(time('b', 20));
    expect(times.isPartial).toBe(false);
    times.add(time('c', 10));
    expect(times.isPartial).toBe(true);
    expect(idsOf(times.takeDue(100, 10))).toEqual(['c', 'b']);
    times.add(time('a', 30)); // the next scan finds it
    expect(idsOf(times.takeDue(100, 10))).toEqual(['a']);
  });
});
