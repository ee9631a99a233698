// Fails when text that users read contains a word that docs/glossary.md replaces. Arguments name folders whose code is
// checked as well, comments and identifiers included: `node scripts/check-words.ts src/agent test/agent`.
import { fileURLToPath } from 'node:url';
import { codeWordProblems, wordProblems } from './word-rules.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const problems = [...wordProblems(root), ...codeWordProblems(root, process.argv.slice(2))];
for (const problem of problems) console.error(problem);
if (problems.length > 0) {
  console.error(`${problems.length} avoided word${problems.length === 1 ? '' : 's'}`);
  process.exitCode = 1;
}
