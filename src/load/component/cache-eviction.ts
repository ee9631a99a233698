import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ENTRY_SUFFIX, UNFINISHED_SUFFIX } from './cache-names.ts';

/** Nobody writes for so long: what is older was left behind by a process that died. */
const ABANDONED_MS = 3_600_000;

/** Removes what was not used for longest until the rest fits. Other processes may be doing the same. */
export function evict(directory: string, maxBytes: number, now: number): void {
  const files = readdirSync(directory)
    .filter((name) => name.endsWith(ENTRY_SUFFIX) || name.endsWith(UNFINISHED_SUFFIX))
    .flatMap((name) => {
      const path = join(directory, name);
      const found = statSync(path, { throwIfNoEntry: false });
      return found ? [{ path, bytes: found.size, usedAt: found.mtimeMs, finished: name.endsWith(ENTRY_SUFFIX) }] : [];
    });
  for (const { path, usedAt, finished } of files) {
    if (!finished && now - usedAt > ABANDONED_MS) rmSync(path, { force: true });
  }
  const entries = files.filter(({ finished }) => finished).sort((one, other) => one.usedAt - other.usedAt);
  let total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of entries) {
    if (total <= maxBytes) return;
    rmSync(path, { force: true });
    total -= bytes;
  }
}
