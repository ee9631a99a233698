import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

/** What dist/ is made of. The lockfile stands for the bundled packages. */
const INPUTS = [
  'src',
  'scripts/build.ts',
  'scripts/build-console.ts',
  'scripts/reachable-types.ts',
  'scripts/third-party.ts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
];
const HASH_FILE = 'dist/.inputs';

/** SHA-256 over the names and contents of every file that the build reads. */
export function inputHash(root: string): string {
  const hash = createHash('sha256');
  for (const file of INPUTS.flatMap((input) => filesAt(join(root, input)))) {
    const content = createHash('sha256').update(readFileSync(file)).digest('hex');
    hash.update(`${relative(root, file).split(sep).join('/')} ${content}\n`);
  }
  return hash.digest('hex');
}

/** Whether dist/ was built from the files as they are now. */
export function isBuildCurrent(root: string): boolean {
  try {
    return readFileSync(join(root, HASH_FILE), 'utf8') === inputHash(root);
  } catch {
    return false; // never built, or built before the hash was recorded
  }
}

/** Marks the finished dist/ with the hash that was taken before the build began. */
export function recordInputs(root: string, hash: string): void {
  writeFileSync(join(root, HASH_FILE), hash);
}

function filesAt(path: string): string[] {
  try {
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort();
  } catch {
    return [path]; // a single file
  }
}
