// Fails when text that users read contains a word that docs/glossary.md replaces.
import { fileURLToPath } from 'node:url';
import { wordProblems } from './word-rules.ts';

const problems = wordProblems(fileURLToPath(new URL('..', import.meta.url)));
for (const problem of problems) console.error(problem);
if (problems.length > 0) {
  console.error(`${problems.length} avoided word${problems.length === 1 ? '' : 's'} in user-visible text`);
  process.exitCode = 1;
}
