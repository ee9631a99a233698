import type { DatabaseSync } from 'node:sqlite';

/** Marks a file as a registry ("SPRG"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x53505247;
const SCHEMA_VERSION = 1;

const createTables = `
  CREATE TABLE registry (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    epoch TEXT NOT NULL,
    revision INTEGER NOT NULL,
    compacted INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE servers (
    server_id TEXT PRIMARY KEY,
    origin TEXT NOT NULL,
    record TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE changes (
    revision INTEGER PRIMARY KEY,
    server_id TEXT NOT NULL
  ) STRICT;
`;

/** Creates the tables in a new file; refuses a file that this version cannot read. */
export function prepareSchema(db: DatabaseSync, path: string, newEpoch: () => string): void {
  const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as { count: number };
  const isNew = tables.count === 0 && pragmaNumber(db, 'application_id') === 0;
  if (!isNew) checkSchema(db, path);
  else create(db, newEpoch());
}

function create(db: DatabaseSync, epoch: string): void {
  inTransaction(db, () => {
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}; ${createTables}`);
    db.prepare('INSERT INTO registry VALUES (1, ?, 0, 0)').run(epoch);
  });
}

export function checkSchema(db: DatabaseSync, path: string): void {
  if (pragmaNumber(db, 'application_id') !== APPLICATION_ID) throw new Error(`${path} is not a registry file`);
  const version = pragmaNumber(db, 'user_version');
  if (version === SCHEMA_VERSION) return;
  throw new Error(`${path} has format ${version}, and this program reads format ${SCHEMA_VERSION} only`);
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

function pragmaNumber(db: DatabaseSync, name: 'user_version' | 'application_id'): number {
  const row = db.prepare(`PRAGMA ${name}`).get() as Record<string, number>;
  return row[name] ?? 0;
}
