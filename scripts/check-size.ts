// Fails when src/ grows beyond its budget: hand-written lines, files and doors (folders at the top of src/). A change that
// raises a budget names in its commit what it deleted.
import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const budget = { lines: 93_600, files: 640, doors: 12 };

const src = fileURLToPath(new URL('../src', import.meta.url));
const paths = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map((path) => path.split(sep).join('/'))
  .filter((path) => /\.tsx?$/.test(path) && !path.startsWith('generated/'));
const size = {
  lines: paths.reduce((sum, path) => sum + readFileSync(join(src, path), 'utf8').split('\n').length - 1, 0),
  files: paths.length,
  doors: readdirSync(src, { withFileTypes: true }).filter((entry) => entry.isDirectory()).length,
};
for (const name of ['lines', 'files', 'doors'] as const) {
  console.log(`src/ has ${size[name]} ${name}, budget ${budget[name]}`);
  if (size[name] > budget[name]) process.exitCode = 1;
}
