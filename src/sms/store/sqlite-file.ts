import { chmodSync, closeSync, mkdirSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errorText } from '../../base/error-text.ts';

// Records may hold what their authors should have kept out of them, so the files are for their owner alone.
const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

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
    throw new Error(`${path} cannot be opened: ${reason}`);
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
