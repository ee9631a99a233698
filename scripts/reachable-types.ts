import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const RELATIVE_IMPORT = /(?:\bfrom|\bimport\(|^import)\s*["'](\.[^"']+)["']/gm;

/** Removes the declarations that `entry` does not lead to: the compiler writes those of everything it read. */
export function keepReachableTypes(folder: string, entry: string): void {
  const reached = new Set<string>();
  const visit = (file: string) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, target = ''] of readFileSync(file, 'utf8').matchAll(RELATIVE_IMPORT)) {
      visit(resolve(dirname(file), target.replace(/(?:\.d)?\.[jt]s$/, '.d.ts')));
    }
  };
  visit(join(folder, entry));
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.d.ts') && !reached.has(join(folder, path))) rmSync(join(folder, path));
  }
}
