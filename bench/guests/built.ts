import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isBuildCurrent } from '../../scripts/build-inputs.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What is installed is what is measured, so it must be there. */
export function requireBuild(): void {
  if (!existsSync(`${root}dist/spear-run.cjs`)) throw new Error('dist/ is missing: run npm run build first');
}

/** Rows that start processes measure dist/, which may be older than the sources. */
export function warnOfOldBuild(): void {
  if (!isBuildCurrent(root))
    console.log('dist/ does not match src/: rows that start processes measure the old build; run npm run build');
}
