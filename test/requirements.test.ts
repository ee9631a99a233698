import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { coverageProblems, findTests, idsOf } from './requirement-coverage.ts';
import { requirements } from './requirements.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** Not only of `*.test.ts`: what several implementations must keep stands in a file that their tests share. */
function allTests() {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => findTests(`test/${path}`, readFileSync(join(folder, path), 'utf8')));
}

it('has a test for every requirement, and a requirement for every tag [requirements.covered]', () => {
  expect(coverageProblems(requirements, allTests())).toEqual([]);
});

const promise = (id: string) => ({ id, text: 'a promise', source: 'issue 2' });

it('finds requirements that no test names, and tests that name an unknown one [requirements.covered]', () => {
  const text = `
    it('keeps one promise [known.one]', () => {});
    it.each([1, 2])('keeps %i promises [known.two, known.three]', () => {});
    it('keeps a promise nobody made [known.none]', () => {});
    it('keeps no promise', () => {});
    it.skip('would keep a promise [known.four]', () => {});
    // it('kept a promise once [known.four]', () => {});
  `;
  const manifest = ['one', 'two', 'three', 'four'].map((name) => promise(`known.${name}`));
  expect(coverageProblems(manifest, findTests('some.test.ts', text))).toEqual([
    'no test names [known.four]: a promise',
    'some.test.ts:4: [known.none] is not in test/requirements.ts',
  ]);
});

it('finds entries of the manifest that are listed twice, misspelled or empty [requirements.covered]', () => {
  const tests = findTests('some.test.ts', "it('x [a.b] [Bad]', () => {});");
  const manifest = [promise('a.b'), promise('a.b'), promise('Bad'), { id: 'a.c', text: ' ', source: 'issue 2' }];
  expect(coverageProblems(manifest, tests)).toEqual([
    'requirement a.b is listed twice',
    expect.stringContaining('requirement Bad: an id is'),
    'requirement a.c: text or source is empty',
    'no test names [Bad]: a promise',
    'no test names [a.c]:  ',
  ]);
});

it('takes only ids for ids: neither indexes nor lists of words [requirements.covered]', () => {
  expect(idsOf('reads choices[0] and [one, two] of a.b [fd.table] [fd.close, fd.reuse]')).toEqual([
    'fd.table',
    'fd.close',
    'fd.reuse',
  ]);
});
