import { expect, it } from 'vitest';
import { compileLimits, limitNames, limitSpecs } from '../../../src/runtime/port/limits.ts';

it('has a default for every limit, in its range and documented', () => {
  const limits = compileLimits();
  expect(Object.keys(limits)).toEqual(limitNames);
  for (const name of limitNames) {
    const { default: standard, min, max, doc } = limitSpecs[name];
    expect(limits[name]).toBe(standard);
    expect(standard, name).toBeGreaterThanOrEqual(min);
    expect(standard, name).toBeLessThanOrEqual(max);
    expect(Number.isInteger(min) && Number.isInteger(max) && min >= 1, name).toBe(true);
    expect(doc.length, name).toBeGreaterThan(10);
  }
});

it('takes what is given and leaves the rest, frozen', () => {
  const limits = compileLimits({ timeout_ms: 5, max_fds: 2 });
  expect(limits).toEqual({ ...compileLimits(), timeout_ms: 5, max_fds: 2 });
  expect(Object.isFrozen(limits)).toBe(true);
});

it('keeps the numbers of the contract', () => {
  expect(limitSpecs.max_fds.default).toBe(1024);
  expect(limitSpecs.memory_bytes.min).toBe(65_536);
  expect(limitSpecs.memory_bytes.max).toBe(2 ** 32);
});
