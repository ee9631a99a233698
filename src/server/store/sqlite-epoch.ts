import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { inTransaction } from '../../base/sqlite-file.ts';

/** Begins the epoch of a copy: whoever opens it as a registry knows that it is not the one that was copied. */
const BACKUP_EPOCH = 'backup:';

/** More changes than a registry makes between a backup and its return, for where the clock cannot be relied on. */
const REVISION_LEAP = 1_000_000;

export function isMarkedAsBackup(db: DatabaseSync): boolean {
  return epochOf(db).startsWith(BACKUP_EPOCH);
}

export function markAsBackup(db: DatabaseSync): void {
  if (!isMarkedAsBackup(db)) db.prepare('UPDATE registry SET epoch = ?').run(BACKUP_EPOCH + epochOf(db));
}

/**
 * Makes a copy another registry. The revisions of every kind begin above all that the copied one can have shown, the one that it
 * replaces (`replacedRevision`), and any that came from the same copy before: at the time in milliseconds, for no registry
 * makes a thousand changes a second for long. The log ends here, so nobody goes on from before.
 */
export function startNewEpoch(db: DatabaseSync, replacedRevision: number): void {
  const revision = Math.max(revisionsAbove(revisionOf(db)), replacedRevision + 1);
  inTransaction(db, () => {
    db.prepare('UPDATE registry SET epoch = ?').run(randomUUID());
    db.prepare('UPDATE kinds SET revision = ?, compacted = ?').run(revision, revision);
    db.exec('DELETE FROM changes');
  });
}

/** Where the revisions of a registry begin that takes the place of one that has shown `shown`. */
export function revisionsAbove(shown: number): number {
  return Math.max(Date.now(), shown + REVISION_LEAP);
}

/** The highest of all kinds. */
export function revisionOf(db: DatabaseSync): number {
  return Number(db.prepare('SELECT max(revision) AS revision FROM kinds').get()?.revision ?? 0);
}

function epochOf(db: DatabaseSync): string {
  return String(db.prepare('SELECT epoch FROM registry').get()?.epoch ?? '');
}
