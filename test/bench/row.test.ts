import { describe, expect, it } from 'vitest';
import { goal, notMeasured, rowFrom, rowWithRatios } from '../../bench/measure/row.ts';

const text = { topic: 'topic', name: 'name', unit: 'ns', yardstickName: 'bare', goal: goal.ratioAtMost(1.5) } as const;

describe('a figure', () => {
  it('is the ratio of the rounds, with its interval and the absolute numbers beside it', () => {
    // The machine got slower by half from round to round: the ratio does not see it, the medians do.
    const yardstick = [10, 15, 22.5, 33.75, 50.625];
    const row = rowFrom(
      text,
      yardstick.map((value) => value * 1.4),
      yardstick,
    );
    expect(row).toMatchObject({ yardstick: 22.5, goal: 'ratio ≤ 1.5', ok: true });
    expect(row.median).toBeCloseTo(31.5);
    for (const ratio of [row.ratio, row.ratioLow, row.ratioHigh]) expect(ratio).toBeCloseTo(1.4);
  });

  it.each([
    [goal.ratioAtMost(2), true],
    [goal.ratioAtMost(1.9), false],
    [goal.ratioAtLeast(2), true],
    [goal.ratioAtLeast(2.1), false],
    [goal.addedAtMost(10, 'ns'), true],
    [goal.addedAtMost(9, 'ns'), false],
    [goal.p99AtMost(20, 'ns'), true],
    [goal.p99AtMost(19, 'ns'), false],
  ])('of 20 beside 10 meets the goal "$text": %#', (wanted, met) => {
    expect(rowFrom({ ...text, goal: wanted }, [20, 20, 20], [10, 10, 10]).ok).toBe(met);
  });

  it('without a goal is published', () => {
    expect(rowFrom({ ...text, goal: null }, [20], [10])).toMatchObject({ goal: null, ok: null, ratio: 2 });
  });

  it('that could not be measured says so', () => {
    const row = notMeasured(text, 'there is no clock');
    expect(row).toMatchObject({ median: null, ratio: null, ok: null, goal: 'ratio ≤ 1.5' });
    expect(row.note).toBe('not measured because there is no clock');
  });

  it('without samples is an error, not a number', () => {
    expect(() => rowWithRatios(text, { ours: [], yardstick: [1], ratios: [1] })).toThrow('topic: name has no samples');
  });
});

it('says where the time goes only where a goal is missed', () => {
  const cause = 'it is written twice';
  expect(rowFrom({ ...text, cause }, [16], [10]).note).toBe(cause);
  expect(rowFrom({ ...text, cause, note: 'as always' }, [14], [10]).note).toBe('as always');
});
