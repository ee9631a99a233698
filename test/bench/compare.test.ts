import { describe, expect, it } from 'vitest';
import {
  compare,
  FOREIGN_TOLERANCE,
  isProblem,
  ratiosOf,
  TOLERANCE,
  toleranceFor,
  yardsticksNs,
} from '../../bench/guard/compare.ts';
import { findWork, parseSlowDown, withExtraWork } from '../../bench/guard/slow-down.ts';

describe('the guard', () => {
  it('takes the best of each side, so that a disturbed yardstick flatters nobody [bench.check]', () => {
    const runs = [
      { call: { ours: 120, yardstick: 100 } },
      { call: { ours: 130, yardstick: 200 } }, // its own ratio would be the best
      { call: { ours: 500, yardstick: 104 } },
    ];
    expect(ratiosOf(runs)).toEqual({ call: 1.2 });
  });

  it('finds what is slower than noise can explain, and what has no counterpart [bench.check]', () => {
    const baseline = { same: 2, slower: 2, faster: 2, gone: 2 };
    const measured = { same: 2 * TOLERANCE, slower: 2 * TOLERANCE + 0.01, faster: 2 / TOLERANCE - 0.01, new: 2 };
    const compared = compare(baseline, measured);
    expect(Object.fromEntries(compared.map(({ name, verdict }) => [name, verdict]))).toEqual({
      same: 'ok',
      slower: 'slower',
      faster: 'faster',
      gone: 'gone',
      new: 'new',
    });
    expect(compared.filter(isProblem).map(({ name }) => name)).toEqual(['slower', 'gone', 'new']);
  });

  it('leaves less than the thirty percent that it must notice [bench.check]', () => {
    expect(TOLERANCE).toBeLessThan(1.3);
  });

  it('can be given a slower hostcall, which does the same [bench.check]', () => {
    expect(parseSlowDown('cchat_recv')).toEqual({ call: 'cchat_recv', percent: 30 });
    expect(parseSlowDown('cchat_recv=50')).toEqual({ call: 'cchat_recv', percent: 50 });
    const imports = { sum: (a: number, b: number) => a + b, other: () => 7 };
    const slower = withExtraWork(imports, 'sum', { turns: 1_000 });
    expect((slower.sum as (a: number, b: number) => number)(2, 3)).toBe(5);
    expect(slower.other).toBe(imports.other);
    expect(() => withExtraWork(imports, 'absent', { turns: 1 })).toThrow('absent is no hostcall');
  });
});

it.each([
  ['the same machine', {}, TOLERANCE],
  ['the same machine, somewhat disturbed', { yardsticksNs: 1300 }, TOLERANCE],
  ['another processor', { cpu: 'another' }, FOREIGN_TOLERANCE],
  ['another V8', { v8: '99' }, FOREIGN_TOLERANCE],
  ['a faster one of the same name', { yardsticksNs: 700 }, FOREIGN_TOLERANCE],
  ['a slower one of the same name', { yardsticksNs: 1400 }, FOREIGN_TOLERANCE],
])('%s has its tolerance [bench.check]', (_what, differs, tolerance) => {
  const then = { cpu: 'a', v8: '14', yardsticksNs: 1000 };
  expect(toleranceFor(then, { ...then, ...differs })).toBe(tolerance);
});

it('adds the best of each yardstick [bench.check]', () => {
  const runs = [
    { a: { ours: 5, yardstick: 3 }, b: { ours: 5, yardstick: 9 } },
    { a: { ours: 5, yardstick: 4 }, b: { ours: 5, yardstick: 7 } },
  ];
  expect(yardsticksNs(runs)).toBe(10);
});

it('finds the work that gives a call the wanted ratio, whatever a turn costs [bench.check]', async () => {
  const work = { turns: 0 };
  const ratio = () => 1 + Math.max(0, work.turns - 10) * 0.007;
  await findWork(work, 1.3, async () => ratio());
  expect(ratio()).toBeGreaterThan(1.25);
  expect(ratio()).toBeLessThan(1.35);
  await findWork(work, 0.9, async () => 1);
  expect(work.turns).toBe(0);
});
