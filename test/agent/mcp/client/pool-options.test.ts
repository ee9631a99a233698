import { describe, expect, it } from 'vitest';
import {
  compilePoolOptions,
  type PoolLimitName,
  poolLimitSpecs,
} from '../../../../src/agent/mcp/client/pool-options.ts';

const names = Object.keys(poolLimitSpecs) as PoolLimitName[];

describe('pool options', () => {
  it('have a default inside its range for every limit, and are frozen', () => {
    const options = compilePoolOptions({ stateDir: '/var/lib/spear' });
    for (const name of names) {
      const { min, max, doc } = poolLimitSpecs[name];
      expect(options[name]).toBe(poolLimitSpecs[name].default);
      expect(options[name]).toBeGreaterThanOrEqual(min);
      expect(options[name]).toBeLessThanOrEqual(max);
      expect(doc).not.toBe('');
    }
    expect(Object.isFrozen(options)).toBe(true);
  });

  it.each(names)('refuse %s outside its range, by name', (name) => {
    const { min, max } = poolLimitSpecs[name];
    for (const value of [min - 1, max + 1, min + 0.5, Number.NaN]) {
      expect(() => compilePoolOptions({ stateDir: '/s', limits: { [name]: value } })).toThrow(new RegExp(`${name} is`));
    }
  });

  it('need a state directory', () => {
    expect(() => compilePoolOptions({ stateDir: '' })).toThrow(/stateDir/);
  });

  it('keep tools for 30 s to 5 min and failures for 1 to 5 s', () => {
    expect([poolLimitSpecs.toolsTtlMs.min, poolLimitSpecs.toolsTtlMs.max]).toEqual([30_000, 300_000]);
    expect([poolLimitSpecs.failureTtlMs.min, poolLimitSpecs.failureTtlMs.max]).toEqual([1_000, 5_000]);
  });
});
