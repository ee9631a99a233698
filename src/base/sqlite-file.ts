import { chmodSync, closeSync, mkdirSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errorText } from './error-text.ts';

// Records may hold what their authors should have kept out of them, so the files are for their owner alone.
const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

// Primary result codes of SQLite.
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;

/** How long another process may hold the file before opening it fails. */
export const LOCK_TIMEOUT_MS = 2_000;

/** Another process has the file open. */
export class DatabaseInUse extends Error {
  constructor(path: string) {
    super(`${path} is in use by another process`);
    this.name = 'DatabaseInUse';
  }
}

/** Opens a database that no other process can open at the same time, and creates it where there is none. */
export function openExclusively(path: string): DatabaseSync {
  createPrivately(path);
  const db = new DatabaseSync(path, { timeout: LOCK_TIMEOUT_MS });
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    // The lock is taken by the first write, so make one before anything relies on it.
    db.exec('BEGIN IMMEDIATE; COMMIT');
    return db;
  } catch (error) {
    db.close();
    const reason = errorText(error);
    if (reason.includes('locked')) throw new DatabaseInUse(path);
    throw new Error(`cannot open ${path}: ${reason}`);
  }
}

/** The size of a file in bytes; null where there is none. */
export function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

export function createPrivately(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  closeSync(openSync(path, 'a', PRIVATE_FILE));
  chmodSync(path, PRIVATE_FILE);
}

export function removeDatabase(path: string): void {
  rmSync(path, { force: true });
  removeLogs(path);
}

/** What SQLite keeps beside a database and would replay into it. */
export function removeLogs(path: string): void {
  for (const suffix of ['-wal', '-shm', '-journal']) rmSync(path + suffix, { force: true });
}

export function inTransaction(db: DatabaseSync, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    work();
    db.exec('COMMIT');
  } catch (error) {
    // Some errors have ended the transaction already.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Without the path: anybody may be told. */
export function whyNotStored(error: unknown): string {
  const reason = errorText(error);
  const code = Number((error as { readonly errcode?: unknown }).errcode ?? 0) & 0xff;
  if (code === SQLITE_FULL) return `no space left on the disk (${reason}); free some space, then try again`;
  if (code === SQLITE_IOERR) {
    return `the disk cannot be written (${reason}); it may be full, over a quota or broken: fix that, then try again`;
  }
  return code === SQLITE_READONLY ? `the file is read-only (${reason}); make it writable, then try again` : reason;
}
