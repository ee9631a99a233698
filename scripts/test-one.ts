// `npm run test:one -- chat/tool-loop` runs the tests of one source file: those named after it, and those that import it.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { testsOf } from './tests-of.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const [source, ...options] = process.argv.slice(2);
if (source === undefined) {
  console.error(
    'usage: npm run test:one -- SOURCE [vitest options]     for example: npm run test:one -- chat/tool-loop',
  );
  process.exit(2);
}
const files = testsOf(root, source);
if (files.length === 0) {
  console.error(`no test is named after src/${source}.ts or imports it`);
  process.exit(1);
}
for (const file of files) console.log(file);
const { status } = spawnSync('vitest', ['run', ...options, ...files], { cwd: root, stdio: 'inherit' });
process.exitCode = status ?? 1;
