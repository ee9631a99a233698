import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { errorText } from './errors.ts';

/*
 * Opening, copying and diagnosing SQLite files. Invariants: only the owner can read a file, one process at a time has it
 * open, and a commit is on the disk before it returns. Errors about damage name the file and the remedy. Schemas and
 * migrations are their stores' task.
 */

// Records may contain secrets by mistake, so only the owner may read the files.
const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

// Primary result codes of SQLite.
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;

/** A write takes some pages of 4 KiB, twice. */
const MIN_FREE_BYTES = 64 * 1024;

/** How long another process may hold the file before opening it fails. */
export const LOCK_TIMEOUT_MS = 2_000;

/** A copy cannot start while a write transaction is open; transactions end within milliseconds. */
const COPY_RETRY_MS = 10;
const COPY_ATTEMPTS = LOCK_TIMEOUT_MS / COPY_RETRY_MS;

/** Another process has the file open. */
export class DatabaseInUse extends Error {
  constructor(path: string) {
    super(`${path} is in use by another process`);
    this.name = 'DatabaseInUse';
  }
}

/** The content of the file is not what SQLite wrote. */
export class DatabaseDamaged extends Error {
  constructor(path: string, reason: string, remedy: string) {
    super(`${path} is damaged (${reason}); ${remedy}`);
    this.name = 'DatabaseDamaged';
  }
}

/** The result of `work`; an error of SQLite about a damaged file names the file and the remedy. @throws DatabaseDamaged */
export function namingDamage<T>(path: string, remedy: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const sqlite = error instanceof Error && error.cause !== undefined ? error.cause : error;
    if (!isDamage(sqlite)) throw error;
    throw new DatabaseDamaged(path, errorText(sqlite), remedy);
  }
}

function isDamage(error: unknown): boolean {
  const code = primaryCode(error);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

const primaryCode = (error: unknown) => Number((error as { readonly errcode?: unknown } | null)?.errcode ?? 0) & 0xff;

/** Opens a database exclusively, and creates it if it is missing. */
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
    throw new Error(`cannot open ${path}: ${reason}`, { cause: error });
  }
}

/** Size of a file in bytes; null: no such file. */
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

/** Removes the logs beside a database, which SQLite would replay into it. */
export function removeLogs(path: string): void {
  for (const suffix of ['-wal', '-shm', '-journal']) rmSync(path + suffix, { force: true });
}

/** Writes a consistent copy of an open database to `path`, while writes to the database continue. */
export async function copyDatabase(source: DatabaseSync, path: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    removeDatabase(path);
    createPrivately(path);
    try {
      await backup(source, path);
      return;
    } catch (error) {
      if (!startedBusy(error) || attempt === COPY_ATTEMPTS) throw error;
    }
    await setTimeout(COPY_RETRY_MS);
  }
}

/**
 * Whether a backup failed because its first step met an open write transaction of the source. Node does not report the
 * result of that step (SQLITE_BUSY): the error has code 0.
 */
function startedBusy(error: unknown): boolean {
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  return code === 'ERR_SQLITE_ERROR' && errcode === 0;
}

/** Edits a closed database and leaves no write-ahead log, so that its one file can be moved. */
export function editDatabase<T>(path: string, edit: (db: DatabaseSync) => T): T {
  const db = openExclusively(path);
  try {
    const result = edit(db);
    db.exec('PRAGMA journal_mode = DELETE');
    return result;
  } finally {
    db.close();
  }
}

/** @throws if the check of SQLite finds damage */
export function checkIntegrity(db: DatabaseSync, name: string): void {
  const check = db.prepare('PRAGMA integrity_check').get();
  if (check?.integrity_check !== 'ok') throw new Error(`${name} is damaged: ${check?.integrity_check}`);
}

/** Writes a copy of an open database to `PATH.format-N`, before its format is changed. @throws if there is no room for it */
export function keepCopy(db: DatabaseSync, path: string, format: number): void {
  const copy = `${path}.format-${format}`;
  const partial = `${copy}.partial`;
  try {
    rmSync(partial, { force: true });
    createPrivately(partial);
    db.prepare('VACUUM INTO ?').run(partial);
    const file = openSync(partial, 'r+');
    fsyncSync(file);
    closeSync(file);
    renameSync(partial, copy);
  } catch (error) {
    throw new Error(`cannot keep a copy of ${path} as ${copy} before its format is changed: ${errorText(error)}`);
  } finally {
    rmSync(partial, { force: true });
  }
}

export function inTransaction(db: DatabaseSync, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    work();
    db.exec('COMMIT');
  } catch (error) {
    // Some errors end the transaction.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Why a write to this file would fail for lack of disk space; null: there is room, or the free space is unknown. */
export function noSpace(path: string): string | null {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize < MIN_FREE_BYTES ? 'no space left on the disk; free some space' : null;
  } catch {
    return null;
  }
}

/** Describes a failed write without the path, for responses to any caller. */
export function whyNotStored(error: unknown): string {
  const reason = errorText(error);
  const code = primaryCode(error);
  if (isDamage(error)) return `the file is damaged (${reason}); stop the process and restore a backup`;
  if (code === SQLITE_FULL) return `no space left on the disk (${reason}); free some space, then try again`;
  if (code === SQLITE_IOERR) {
    return `the disk cannot be written (${reason}); it may be full, over a quota or broken: fix that, then try again`;
  }
  return code === SQLITE_READONLY ? `the file is read-only (${reason}); make it writable, then try again` : reason;
}
