import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { anchorsOf, readPage, root } from './docs/pages.ts';
import { coverageProblems, findTests, idsOf } from './requirement-coverage.ts';
import { requirements } from './requirements.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));

function isThere(docs: string): boolean {
  const [page = '', anchor] = docs.split('#', 2);
  if (!existsSync(join(root, page))) return false;
  return anchor === undefined || anchorsOf(readPage(page)).has(anchor);
}

/** Not only of `*.test.ts`: what several implementations must keep stands in a file that their tests share. */
function allTests() {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => findTests(`test/${path}`, readFileSync(join(folder, path), 'utf8')));
}

it('has a test and a place in the docs for every promise, and a promise for every tag', () => {
  expect(coverageProblems(requirements, allTests(), isThere)).toEqual([]);
});

const promise = (id: string) => ({ id, promise: 'a promise', docs: 'docs/README.md' });

it('finds promises that no test names, and tests that name an unknown one', () => {
  const text = `
    it('keeps one promise [known.one]', () => {});
    it.each([1, 2])('keeps %i promises [known.two, known.three]', () => {});
    it('keeps a promise nobody made [known.none]', () => {});
    it('keeps no promise', () => {});
    it.skip('would keep a promise [known.four]', () => {});
    // it('kept a promise once [known.four]', () => {});
  `;
  const manifest = ['one', 'two', 'three', 'four'].map((name) => promise(`known.${name}`));
  expect(coverageProblems(manifest, findTests('some.test.ts', text), isThere)).toEqual([
    'no test names [known.four]: a promise',
    'some.test.ts:4: [known.none] is not in test/requirements.ts',
  ]);
});

it('finds promises that are listed twice, misspelled, empty, or made nowhere', () => {
  const tests = findTests('some.test.ts', "it('x [a.b] [Bad]', () => {});");
  const manifest = [
    promise('a.b'),
    promise('a.b'),
    promise('Bad'),
    { ...promise('a.c'), promise: ' ' },
    { ...promise('a.d'), docs: 'docs/none.md' },
    { ...promise('a.e'), docs: 'docs/README.md#no-such-heading' },
  ];
  expect(coverageProblems(manifest, tests, isThere)).toEqual([
    'requirement a.b is listed twice',
    expect.stringContaining('requirement Bad: an id is'),
    'requirement a.c: a promise is one line',
    'requirement a.d: docs/none.md is no page, or has no such heading',
    'requirement a.e: docs/README.md#no-such-heading is no page, or has no such heading',
    'no test names [Bad]: a promise',
    'no test names [a.c]:  ',
    'no test names [a.d]: a promise',
    'no test names [a.e]: a promise',
  ]);
});

it('takes only ids for ids: neither indexes nor lists of words', () => {
  expect(idsOf('reads choices[0] and [one, two] of a.b [fd.table] [fd.close, fd.reuse]')).toEqual([
    'fd.table',
    'fd.close',
    'fd.reuse',
  ]);
});
