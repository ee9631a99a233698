import { describe, expect, it } from 'vitest';
import {
  compare,
  FOREIGN_TOLERANCE,
  isProblem,
  ratiosOf,
  TOLERANCE,
  toleranceFor,
  yardstickNs,
} from '../../bench/guard/compare.ts';
import { callOf, findWork, parseSlowDown, slowHostcalls } from '../../bench/guard/slow-down.ts';
import { hostcalls } from '../../src/hostcalls/all.ts';

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
    const slower = slowHostcalls(['spear_abi_version'], { turns: 1_000 });
    const guest = {} as Parameters<typeof hostcalls.spear_abi_version>[0];
    expect(slower.spear_abi_version).not.toBe(hostcalls.spear_abi_version);
    expect(slower.spear_abi_version(guest)).toBe(hostcalls.spear_abi_version(guest));
    expect(slower.time_now_ms).toBe(hostcalls.time_now_ms);
    expect(() => slowHostcalls(['absent'], { turns: 1 })).toThrow('absent is no hostcall');
    expect(['cchat_recv', 'spear_epoll_wait(0), one ready', 'cchat_create + cchat_close'].map(callOf)).toEqual([
      'cchat_recv',
      'spear_epoll_wait',
      'cchat_create',
    ]);
  });
});

it.each([
  ['the same machine', {}, TOLERANCE],
  ['the same machine, somewhat disturbed', { yardstickNs: 1300 }, TOLERANCE],
  ['another processor', { cpu: 'another' }, FOREIGN_TOLERANCE],
  ['another V8', { v8: '99' }, FOREIGN_TOLERANCE],
  ['a faster one of the same name', { yardstickNs: 700 }, FOREIGN_TOLERANCE],
  ['a slower one of the same name', { yardstickNs: 1400 }, FOREIGN_TOLERANCE],
])('%s has its tolerance [bench.check]', (_what, differs, tolerance) => {
  const then = { cpu: 'a', v8: '14', yardstickNs: 1000 };
  expect(toleranceFor(then, { ...then, ...differs })).toBe(tolerance);
});

it('takes the best of each yardstick, and the middle of them [bench.check]', () => {
  const runs = [
    { a: { ours: 5, yardstick: 2 }, b: { ours: 5, yardstick: 900 } },
    { a: { ours: 5, yardstick: 4 }, b: { ours: 5, yardstick: 800 } },
  ];
  expect(yardstickNs(runs)).toBeCloseTo(40);
});

it('finds the work that gives each call its wanted ratio, whatever a turn costs [bench.check]', async () => {
  const turns: Record<string, number> = {};
  const ratios = () => ({
    cheap: 1 + Math.max(0, (turns.cheap ?? 0) - 10) * 0.007,
    dear: 2 + (turns.dear ?? 0) * 0.001,
    slow: 1,
  });
  await findWork({ cheap: 1.3, dear: 2.6, slow: 0.9 }, turns, async () => ratios());
  expect(ratios().cheap).toBeGreaterThan(1.25);
  expect(ratios().cheap).toBeLessThan(1.35);
  expect(ratios().dear).toBeCloseTo(2.6, 1);
  expect(turns.slow).toBe(0);
});
