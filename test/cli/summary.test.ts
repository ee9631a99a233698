import { expect, it } from 'vitest';
import { appliedText } from '../../src/cli/read-records.ts';
import { bounded } from '../../src/cli/say.ts';
import { takeWarning, unprintedWarning } from '../../src/config/registry/registry-endpoint.ts';

it('names few servers and counts many [cli.import-summary]', () => {
  expect(
    appliedText('server', [
      ['a', 'created'],
      ['b', 'unchanged'],
    ]),
  ).toBe('a created\nb unchanged\n');
  const many = Array.from({ length: 10_000 }, (_, index) => [`s${index}`, index < 9 ? 'updated' : 'created'] as const);
  expect(appliedText('server', many)).toBe('10000 servers: 9991 created, 9 updated, 0 unchanged\n');
});

it('prints at most 20 refused entries and how many more there are [cli.import-summary]', () => {
  const lines = bounded(Array.from({ length: 10_000 }, (_, index) => `error ${index}`));
  expect(lines).toHaveLength(21);
  expect(lines.at(-1)).toBe('… and 9980 more');
});

it('prints a warning once, and not in processes that inherit the environment [cli.warning-once]', () => {
  const env: NodeJS.ProcessEnv = {};
  expect(takeWarning({ warning: 'not authenticated' }, env)).toBe('not authenticated');
  expect(takeWarning({ warning: 'not authenticated' }, env)).toBeNull();
  expect(unprintedWarning({ warning: 'not authenticated' }, env)).toBeNull();
  expect(unprintedWarning({ warning: 'not authenticated' }, { ...env })).toBeNull();
  expect(unprintedWarning({ warning: 'of another registry' }, { ...env })).toBe('of another registry');
  expect(unprintedWarning({ warning: null }, env)).toBeNull();
});
