import { describe, expect, it } from 'vitest';
import { median, medianInterval, p99, quantile } from '../../bench/measure/statistics.ts';

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('samples', () => {
  it('have a median, a 99th percentile and anything between', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(p99(upTo(101))).toBe(100);
    expect(quantile(upTo(11), 0.1)).toBe(2);
    expect(median([])).toBeNaN();
  });

  it('say where their median lies by their order alone', () => {
    const [low, high] = medianInterval(upTo(101));
    expect(low).toBeGreaterThan(35);
    expect(low).toBeLessThan(51);
    expect(high).toBeGreaterThan(51);
    expect(high).toBeLessThan(67);
    const wild = upTo(101).map((value) => (value > 90 ? value * 1e6 : value));
    expect(medianInterval(wild)).toEqual([low, high]);
    expect(medianInterval([7])).toEqual([7, 7]);
  });

  it('make a narrower interval the more of them there are', () => {
    const width = (count: number) => {
      const [low, high] = medianInterval(upTo(count).map((value) => value / count));
      return high - low;
    };
    expect(width(1_001)).toBeLessThan(width(101));
  });
});
