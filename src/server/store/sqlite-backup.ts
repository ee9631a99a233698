import { renameSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import {
  checkIntegrity,
  copyDatabase,
  DatabaseInUse,
  editDatabase,
  LOCK_TIMEOUT_MS,
  openExclusively,
  removeDatabase,
  removeLogs,
} from '../../base/sqlite-file.ts';
import { markAsBackup, revisionOf, startNewEpoch } from './sqlite-epoch.ts';
import { formatOf, upgradeSchema } from './sqlite-schema.ts';

/** A consistent copy of an open database; what stands at `path` is replaced only when the copy is complete. */
export async function writeBackup(db: DatabaseSync, path: string): Promise<void> {
  const partial = `${path}.partial`;
  try {
    await copyDatabase(db, partial);
    editDatabase(partial, markAsBackup);
    renameSync(partial, path);
  } finally {
    removeDatabase(partial);
  }
}

/**
 * Puts a backup in the place of the registry file at `path`, which no process may have open. The result is another
 * registry than the one before, so it gets an epoch of its own, and every node that sees it lists again.
 */
export async function restoreSqliteStore(backupPath: string, path: string): Promise<void> {
  const incoming = `${path}.restore`;
  const source = new DatabaseSync(backupPath, { readOnly: true, timeout: LOCK_TIMEOUT_MS });
  let replaced: DatabaseSync | null = null;
  try {
    formatOf(source, backupPath);
    await copyDatabase(source, incoming);
    replaced = holdReplaced(path);
    const replacedRevision = replaced === null ? 0 : readableRevision(replaced, path);
    editDatabase(incoming, (copy) => {
      checkIntegrity(copy, backupPath);
      upgradeSchema(copy, backupPath);
      startNewEpoch(copy, replacedRevision);
    });
    // Its log must not be replayed into the new one.
    if (replaced === null) removeLogs(path);
    else replaced.exec('PRAGMA journal_mode = DELETE');
    renameSync(incoming, path);
  } finally {
    replaced?.close();
    source.close();
    removeDatabase(incoming);
  }
}

/** Makes the registry in a closed file another one, with revisions above all that `shown` says were seen elsewhere. */
export function renewEpoch(path: string, shown: number): void {
  editDatabase(path, (db) => startNewEpoch(db, shown));
}

/** Holding the old file proves that nobody uses it. Null: it is too broken to be opened, which a backup is to mend. */
function holdReplaced(path: string): DatabaseSync | null {
  try {
    return openExclusively(path);
  } catch (error) {
    if (error instanceof DatabaseInUse) throw error;
    return null;
  }
}

/** 0 where the file holds no registry, or one that cannot be read. */
function readableRevision(db: DatabaseSync, path: string): number {
  try {
    upgradeSchema(db, path);
    return revisionOf(db);
  } catch {
    return 0;
  }
}
