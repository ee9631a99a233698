import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

const TEST = /(?:\.\w+)?\.test\.ts$/;

/**
 * The test files of a source, relative to `root`. `source` is its path in src/ without or with the ending, or the path of
 * a test; its first folders may be left out. Tests that carry the name of the source come before those that only import it.
 */
export function testsOf(root: string, source: string): string[] {
  const name = source.replace(/^(?:src|test)\//, '').replace(/(?:\.\w+)*\.tsx?$/, '');
  const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => TEST.test(path))
    .sort();
  const isMeant = (path: string) => path === name || path.endsWith(`/${name}`);
  const named = tests.filter((path) => isMeant(path.replace(/(?:\.[\w-]+)*\.test\.ts$/, '')));
  const importing = tests.filter((path) => !named.includes(path) && [...imports(root, path)].some(isMeant));
  return [...named, ...importing].map((path) => `test/${path}`);
}

/** Sources that a test imports directly, as paths in src/ without the ending. */
function imports(root: string, test: string): ReadonlySet<string> {
  const file = join(root, 'test', test);
  const specifiers = readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)\.tsx?'/g);
  const src = join(root, 'src');
  return new Set(
    [...specifiers].map(([, path = '']) =>
      relative(src, resolve(dirname(file), path))
        .split(sep)
        .join('/'),
    ),
  );
}
