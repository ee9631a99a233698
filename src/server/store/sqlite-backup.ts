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
import { formatOf, markAsBackup, revisionOf, startNewEpoch, upgradeSchema } from './sqlite-schema.ts';

/** Writes a consistent copy of an open database; the file at `path` is replaced only when the copy is complete. */
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
 * Replaces the registry file at `path`, which no process may have open, by a backup. The result is a different registry, so it
 * gets a new epoch, and every node lists again.
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
    // The write-ahead log of the old file must not be replayed into the new one.
    if (replaced === null) removeLogs(path);
    else replaced.exec('PRAGMA journal_mode = DELETE');
    renameSync(incoming, path);
  } finally {
    replaced?.close();
    source.close();
    removeDatabase(incoming);
  }
}

/** Gives the registry in a closed file a new epoch, with revisions above `shown`. */
export function renewEpoch(path: string, shown: number): void {
  editDatabase(path, (db) => startNewEpoch(db, shown));
}

/** Opening the old file exclusively proves that no process uses it. Null: the file is damaged and cannot be opened. */
function holdReplaced(path: string): DatabaseSync | null {
  try {
    return openExclusively(path);
  } catch (error) {
    if (error instanceof DatabaseInUse) throw error;
    return null;
  }
}

/** The highest revision; 0 if the file has no readable registry. */
function readableRevision(db: DatabaseSync, path: string): number {
  try {
    upgradeSchema(db, path);
    return revisionOf(db);
  } catch {
    return 0;
  }
}
