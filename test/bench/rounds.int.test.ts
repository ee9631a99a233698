import { describe, expect, it } from 'vitest';
import { interleave } from '../../bench/measure/rounds.ts';
import { stepInTurns } from '../../bench/measure/stepped.ts';

describe('rounds', () => {
  it('run the sides in turn, in an order that changes, and count none of the warm-up', async () => {
    const order: string[] = [];
    const side = (name: string) => ({ operations: 10, run: () => void order.push(name) });
    const samples = await interleave(
      [
        [side('a'), side('A')],
        [side('b'), side('B')],
      ],
      { rounds: 4, warmUp: 2 },
    );
    expect(order.join('')).toBe('aAbBAaBbaAbBAaBbaAbBAaBb');
    expect(samples.map((sides) => sides.map(({ length }) => length))).toEqual([
      [4, 4],
      [4, 4],
    ]);
  });

  it('give the time of one operation, without what is done before and after', async () => {
    const log: string[] = [];
    const wait = () => new Promise((resolve) => setTimeout(resolve, 20));
    const side = {
      operations: 4,
      before: () => wait().then(() => void log.push('before')),
      run: () => wait().then(() => void log.push('run')),
      after: () => void log.push('after'),
    };
    const [[[ns = 0] = []] = []] = await interleave([[side]], { rounds: 1, warmUp: 0 });
    expect(log).toEqual(['before', 'run', 'after']);
    expect(ns).toBeGreaterThan((15 * 1e6) / 4);
  });

  it('end where something else was measured than meant', async () => {
    const side = {
      operations: 1,
      run: () => 1,
      after: () => {
        throw new Error('the wrong thing is measured');
      },
    };
    await expect(interleave([[side]], { rounds: 1, warmUp: 0 })).rejects.toThrow('the wrong thing is measured');
  });

  it('of steps pair the medians of the same round', async () => {
    let round = 0;
    const ours = async (count: number) => Array.from({ length: count }, () => 3 * round);
    const yardstick = async (count: number) => Array.from({ length: count }, () => ++round && round);
    const samples = await stepInTurns(ours, yardstick, { rounds: 3, steps: 1, warmUp: 1 });
    expect(samples.ours).toHaveLength(3);
    expect(samples.yardstick).toHaveLength(3);
    expect(samples.ratios).toHaveLength(3);
  });
});
