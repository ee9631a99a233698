// Import direction, cycles, where the environment is read, and how long a file may grow.
import { fileURLToPath } from 'node:url';
import { layoutProblems } from './layout-rules.ts';

const problems = layoutProblems(fileURLToPath(new URL('..', import.meta.url)));
for (const problem of problems) console.error(problem);
if (problems.length > 0) {
  console.error(`${problems.length} problem${problems.length === 1 ? '' : 's'} in the layout of src/`);
  process.exitCode = 1;
}
