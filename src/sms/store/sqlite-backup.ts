import { randomUUID } from 'node:crypto';
import { renameSync } from 'node:fs';
import { backup, DatabaseSync } from 'node:sqlite';
import { createPrivately, LOCK_TIMEOUT_MS, openExclusively, removeDatabase } from './sqlite-file.ts';
import { checkSchema } from './sqlite-schema.ts';

/** A consistent copy of an open database; what stands at `path` is replaced only when the copy is complete. */
export async function writeBackup(db: DatabaseSync, path: string): Promise<void> {
  const partial = `${path}.partial`;
  await copyDatabase(db, partial);
  renameSync(partial, path);
}

/**
 * Puts a backup in the place of the registry file at `path`, which no process may have open. The result is another
 * registry than the one before, so it gets an epoch of its own, and every node that sees it lists again.
 */
export async function restoreSqliteStore(backupPath: string, path: string): Promise<void> {
  const incoming = `${path}.restore`;
  const source = new DatabaseSync(backupPath, { readOnly: true, timeout: LOCK_TIMEOUT_MS });
  try {
    checkSchema(source, backupPath);
    await copyDatabase(source, incoming);
    giveNewEpoch(incoming, backupPath);
    replaceDatabase(incoming, path);
  } finally {
    source.close();
    removeDatabase(incoming);
  }
}

async function copyDatabase(source: DatabaseSync, path: string): Promise<void> {
  removeDatabase(path);
  createPrivately(path);
  try {
    await backup(source, path);
  } catch (error) {
    removeDatabase(path);
    throw error;
  }
}

function giveNewEpoch(path: string, backupPath: string): void {
  const copy = openExclusively(path);
  try {
    const check = copy.prepare('PRAGMA integrity_check').get();
    if (check?.integrity_check !== 'ok') throw new Error(`${backupPath} is damaged: ${check?.integrity_check}`);
    copy.prepare('UPDATE registry SET epoch = ?').run(randomUUID());
    // Out of the write-ahead log and into the one file that is about to be moved.
    copy.exec('PRAGMA journal_mode = DELETE');
  } finally {
    copy.close();
  }
}

/** Holding the old file proves that nobody uses it; its log is emptied, for it must not be replayed into the new one. */
function replaceDatabase(incoming: string, path: string): void {
  const replaced = openExclusively(path);
  try {
    replaced.exec('PRAGMA journal_mode = DELETE');
    renameSync(incoming, path);
  } finally {
    replaced.close();
  }
}
