import { describe, expect, it } from 'vitest';
import {
  compare,
  FOREIGN_TOLERANCE,
  isProblem,
  PROCESS_TOLERANCE,
  ratiosOf,
  TOLERANCE,
  toleranceFor,
  yardsticksOf,
} from '../../bench/guard/compare.ts';
import { GOVERNED_CALL } from '../../bench/guard/figure-groups.ts';
import { callOf, findWork, parseSlowDown, slowHostcalls } from '../../bench/guard/slow-down.ts';
import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';

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
    expect(PROCESS_TOLERANCE).toBeLessThan(1.3);
    const [call] = compare({ [GOVERNED_CALL]: 1 }, { [GOVERNED_CALL]: 1.3 });
    expect(call?.verdict).toBe('slower');
    const [busy] = compare({ [GOVERNED_CALL]: 1 }, { [GOVERNED_CALL]: PROCESS_TOLERANCE });
    expect(busy?.verdict).toBe('ok');
  });

  it('can be given a slower hostcall, which does the same [bench.check]', () => {
    expect(parseSlowDown('cchat_recv')).toEqual({ call: 'cchat_recv', percent: 30 });
    expect(parseSlowDown('cchat_recv=50')).toEqual({ call: 'cchat_recv', percent: 50 });
    const slower = slowHostcalls(['spear_abi_version'], { turns: 1_000 });
    const guest = {} as Parameters<typeof hostcalls.spear_abi_version>[0];
    expect(slower.spear_abi_version).not.toBe(hostcalls.spear_abi_version);
    expect(slower.spear_abi_version(guest)).toBe(hostcalls.spear_abi_version(guest));
    expect(slower.time_now_ms).toBe(hostcalls.time_now_ms);
    expect(() => slowHostcalls(['absent'], { turns: 1 })).toThrow('absent is not a hostcall');
    expect(['cchat_recv', 'spear_epoll_wait(0), one ready', 'cchat_create + cchat_close'].map(callOf)).toEqual([
      'cchat_recv',
      'spear_epoll_wait',
      'cchat_create',
    ]);
  });
});

const then = { cpu: 'a', v8: '14', yardstickNs: { decode: 1000, copy: 50, at_once: 20 } };
const at = (factor: number) =>
  Object.fromEntries(Object.entries(then.yardstickNs).map(([name, ns]) => [name, ns * factor]));

it.each([
  ['the same machine', {}, TOLERANCE],
  ['the same machine, somewhat disturbed', { yardstickNs: at(1.3) }, TOLERANCE],
  ['the same machine, with a figure that is new', { yardstickNs: { ...at(1), parse: 400 } }, TOLERANCE],
  ['another processor', { cpu: 'another' }, FOREIGN_TOLERANCE],
  ['one of which nothing was measured that could tell', { yardstickNs: {} }, TOLERANCE],
  ['another V8', { v8: '99' }, FOREIGN_TOLERANCE],
  ['a faster one of the same name', { yardstickNs: at(0.7) }, FOREIGN_TOLERANCE],
  ['a slower one of the same name', { yardstickNs: at(1.4) }, FOREIGN_TOLERANCE],
  ['one of the same name with another memory', { yardstickNs: { ...at(1), decode: 700 } }, FOREIGN_TOLERANCE],
])('%s has its tolerance [bench.check]', (_what, differs, tolerance) => {
  expect(toleranceFor(then, { ...then, ...differs })).toBe(tolerance);
});

it('one yardstick of many that is off is a disturbance, several are another machine [bench.check]', () => {
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`figure ${n}`, 100]));
  const off = (count: number) => Object.fromEntries(Object.keys(many).map((name, n) => [name, n < count ? 130 : 100]));
  const machine = { cpu: 'a', v8: '14' };
  const tolerance = (count: number) =>
    toleranceFor({ ...machine, yardstickNs: many }, { ...machine, yardstickNs: off(count) });
  expect([1, 2, 3].map(tolerance)).toEqual([TOLERANCE, TOLERANCE, FOREIGN_TOLERANCE]);
});

it('takes the best of each yardstick that tells a machine [bench.check]', () => {
  const runs = [
    { a: { ours: 5, yardstick: 2 }, b: { ours: 5, yardstick: 900 } },
    { a: { ours: 5, yardstick: 4 }, b: { ours: 5, yardstick: 800 }, [GOVERNED_CALL]: { ours: 5, yardstick: 7 } },
  ];
  expect(yardsticksOf(runs)).toEqual({ a: 2, b: 800 });
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
