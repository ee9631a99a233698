import { afterEach, expect, it, vi } from 'vitest';
import { needs } from './needs.ts';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

it('returns nothing for a program that is there', () => {
  expect(needs(true, 'a program of this test', 'install it')).toBeUndefined();
});

it('returns the text of a skip, with the command that installs the program', () => {
  vi.stubEnv('CI', '');
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  expect(needs(false, 'a program of this test', 'install it')).toBe('a program of this test is missing: install it');
  expect(write).toHaveBeenCalledExactlyOnceWith('skipped: a program of this test is missing: install it\n');
});

it('fails in CI', () => {
  vi.stubEnv('CI', 'true');
  expect(() => needs(false, 'a program of this test', 'install it')).toThrow(
    'a program of this test is missing: install it (in CI',
  );
});
