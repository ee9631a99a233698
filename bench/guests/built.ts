import { existsSync, readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What is installed is what is measured, so it must be there. */
export function requireBuild(): void {
  if (!existsSync(`${root}dist/spear-run.cjs`)) throw new Error('dist/ is missing: run npm run build first');
}

/** Whether the code has changed since it was built: figures of processes would be those of older code. */
export function isBuildOld(): boolean {
  const built = statSync(`${root}dist/spear-run.cjs`, { throwIfNoEntry: false });
  if (!built) return false;
  const files = readdirSync(`${root}src`, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.some(({ parentPath, name }) => statSync(`${parentPath}/${name}`).mtimeMs > built.mtimeMs);
}
