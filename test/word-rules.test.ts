import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { avoidedWords, wordProblems } from '../scripts/word-rules.ts';

const roots: string[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** The problems of a checkout that holds just this file. */
function problemsOf(path: string, text: string): string[] {
  const root = mkdtempSync(join(tmpdir(), 'spear-words-'));
  roots.push(root);
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  return wordProblems(root);
}

describe('avoided words are found', () => {
  it.each([
    ['a page', 'docs/node.md', 'First line.\nThe run goes on.\n', 'docs/node.md:2 "goes on": write continues, resumes'],
    ['a string', 'src/a.ts', "export const a = 'nobody waits';\n", 'src/a.ts:1 "nobody": write no caller, no user'],
    ['a template', 'src/a.ts', 'export const a = (b: string) => `$' + '{b} is told`;\n', 'src/a.ts:1 "is told"'],
    ['text of a page', 'src/a.tsx', 'export const a = <p>Somebody decides</p>;\n', 'src/a.tsx:1 "Somebody"'],
    ['a possessive', 'README.md', "somebody's approval\n", 'README.md:1 "somebody\'s"'],
  ])('in %s', (_, path, text, problem) => {
    expect(problemsOf(path, text)).toEqual([expect.stringContaining(problem)]);
  });
});

describe('nothing is found', () => {
  it.each([
    ['in comments and names, which are not user-visible', 'src/a.ts', '// nobody waits\nexport const trail = 1;\n'],
    [
      'in paths of imports',
      'src/a.ts',
      "import { a } from './trail.ts';\nexport { b } from '../leash.ts';\nexport { a };\n",
    ],
    ['in longer words', 'docs/a.md', 'trailing blanks, recommended, renewed, amended\n'],
    [
      'in names that compatibility keeps',
      'docs/a.md',
      '`AuditTrail` is deprecated, `/admin/api/trail` and `no-trail` too\n',
    ],
    ['in the glossary', 'docs/glossary.md', 'audit log (not: trail)\n'],
  ])('%s', (_, path, text) => {
    expect(problemsOf(path, text)).toEqual([]);
  });
});

it('names the term to use for every avoided word', () => {
  for (const [pattern, use] of avoidedWords) expect(use, pattern).not.toBe('');
});
