import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { errorText } from '../../base/errors.ts';
import { inTransaction, keepCopy } from '../../base/sqlite-file.ts';

/** Marks a file as a registry ("SPRG"), so that another program's database is rejected. */
const APPLICATION_ID = 0x53505247;
/** Format of the registry file. Format 1 had servers only. */
export const REGISTRY_FORMAT = 2;

/** Each kind has its own revisions. Records of unknown kinds are left unchanged. */
const createTables = `
  CREATE TABLE registry (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    epoch TEXT NOT NULL
  ) STRICT;
  CREATE TABLE kinds (
    kind TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    compacted INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE records (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    origin TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE changes (
    kind TEXT NOT NULL,
    revision INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (kind, revision)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO kinds VALUES ('server', 0, 0), ('profile', 0, 0);
`;

/** Migrates format 1, which had servers only. */
const fromFormat1 = `
  ALTER TABLE registry RENAME TO registry_1;
  ALTER TABLE changes RENAME TO changes_1;
  ${createTables}
  INSERT INTO registry SELECT only_row, epoch FROM registry_1;
  UPDATE kinds SET (revision, compacted) = (SELECT revision, compacted FROM registry_1) WHERE kind = 'server';
  INSERT INTO records SELECT 'server', server_id, origin, record FROM servers;
  INSERT INTO changes SELECT 'server', revision, server_id FROM changes_1;
  DROP TABLE registry_1;
  DROP TABLE changes_1;
  DROP TABLE servers;
`;

/** Creates the tables in a new file, or migrates an older file. @throws if the file cannot be read */
export function prepareSchema(db: DatabaseSync, path: string, newEpoch: () => string): void {
  const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as { count: number };
  const isNew = tables.count === 0 && pragmaNumber(db, 'application_id') === 0;
  if (isNew) create(db, newEpoch());
  else {
    const format = formatOf(db, path);
    if (format !== REGISTRY_FORMAT) keepCopy(db, path, format);
    upgradeSchema(db, path);
  }
}

function create(db: DatabaseSync, epoch: string): void {
  inTransaction(db, () => {
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${REGISTRY_FORMAT}; ${createTables}`);
    db.prepare('INSERT INTO registry VALUES (1, ?)').run(epoch);
  });
}

/** Migrates in one transaction: if it fails, the file is unchanged. */
export function upgradeSchema(db: DatabaseSync, path: string): void {
  if (formatOf(db, path) === REGISTRY_FORMAT) return;
  try {
    inTransaction(db, () => db.exec(`${fromFormat1} PRAGMA user_version = ${REGISTRY_FORMAT};`));
  } catch (error) {
    const why = errorText(error);
    throw new Error(
      `${path} has format 1 and cannot be migrated to format ${REGISTRY_FORMAT}; nothing was changed: ${why}`,
    );
  }
}

/** @throws if the file is not a registry, or has an unknown format */
export function formatOf(db: DatabaseSync, path: string): number {
  if (pragmaNumber(db, 'application_id') !== APPLICATION_ID) throw new Error(`${path} is not a registry file`);
  const version = pragmaNumber(db, 'user_version');
  if (version >= 1 && version <= REGISTRY_FORMAT) return version;
  throw new Error(`${path} has format ${version}; this version reads formats 1 to ${REGISTRY_FORMAT}`);
}

function pragmaNumber(db: DatabaseSync, name: 'user_version' | 'application_id'): number {
  const row = db.prepare(`PRAGMA ${name}`).get() as Record<string, number>;
  return row[name] ?? 0;
}

/** Prefix of the epoch in a copy, so that opening the copy as a registry starts a new epoch. */
const BACKUP_EPOCH = 'backup:';

/** More changes than a registry makes between a backup and a restore, in case the clock is wrong. */
const REVISION_LEAP = 1_000_000;

export function isMarkedAsBackup(db: DatabaseSync): boolean {
  return epochOf(db).startsWith(BACKUP_EPOCH);
}

export function markAsBackup(db: DatabaseSync): void {
  if (!isMarkedAsBackup(db)) db.prepare('UPDATE registry SET epoch = ?').run(BACKUP_EPOCH + epochOf(db));
}

/**
 * Makes a copy a different registry. The revisions of every kind start above all revisions of the copied registry, of the
 * replaced one (`replacedRevision`), and of earlier restores of the same copy: at the current time in milliseconds, because no
 * registry makes a thousand changes per second for long. The log is emptied, so that no watcher resumes across the restore.
 */
export function startNewEpoch(db: DatabaseSync, replacedRevision: number): void {
  const revision = Math.max(revisionsAbove(revisionOf(db)), replacedRevision + 1);
  inTransaction(db, () => {
    db.prepare('UPDATE registry SET epoch = ?').run(randomUUID());
    db.prepare('UPDATE kinds SET revision = ?, compacted = ?').run(revision, revision);
    db.exec('DELETE FROM changes');
  });
}

/** First revision of a registry that replaces one at revision `shown`. */
export function revisionsAbove(shown: number): number {
  return Math.max(Date.now(), shown + REVISION_LEAP);
}

/** The highest revision of all kinds. */
export function revisionOf(db: DatabaseSync): number {
  return Number(db.prepare('SELECT max(revision) AS revision FROM kinds').get()?.revision ?? 0);
}

function epochOf(db: DatabaseSync): string {
  return String(db.prepare('SELECT epoch FROM registry').get()?.epoch ?? '');
}
