import { afterEach, expect, it, vi } from 'vitest';
import { needs } from './needs.ts';

afterEach(() => {
  vi.unstubAllEnvs();
});

it('returns nothing for a program that is there', () => {
  expect(needs(true, 'helm', 'npm run engines')).toBeUndefined();
});

it('returns the text of a skip, with the command that installs the program', () => {
  vi.stubEnv('CI', '');
  expect(needs(false, 'helm', 'npm run engines')).toBe('helm is missing: npm run engines');
});

it('fails in CI', () => {
  vi.stubEnv('CI', 'true');
  expect(() => needs(false, 'helm', 'npm run engines')).toThrow('helm is missing: npm run engines (in CI');
});
