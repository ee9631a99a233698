import { expect, it } from 'vitest';
import { diffLines, nearChanges } from '../../src/console/diff.ts';

const shown = (before: string, after: string) =>
  diffLines(before, after).map(({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`);

it('shows as few changes as there can be', () => {
  expect(shown('a\nb\nc', 'a\nc\nd')).toEqual([' a', '-b', ' c', '+d']);
  expect(shown('', 'a')).toEqual(['+a']);
  expect(shown('a', '')).toEqual(['-a']);
  expect(shown('a', 'a')).toEqual([' a']);
});

it('leaves out what is far from any change, and texts that are too long are compared as a whole', () => {
  const many = Array.from({ length: 50 }, (_, at) => `line ${at}`);
  const lines = nearChanges(diffLines(many.join('\n'), [...many, 'new'].join('\n')));
  expect(lines).toEqual([
    null,
    ...['line 47', 'line 48', 'line 49'].map((text) => ({ kind: 'same', text })),
    { kind: 'added', text: 'new' },
  ]);
  const long = 'x\n'.repeat(3_000);
  expect(new Set(diffLines(long, long).map(({ kind }) => kind))).toEqual(new Set(['removed', 'added']));
});
