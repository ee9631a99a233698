import type { DatabaseSync } from 'node:sqlite';

/** Marks a file as a registry ("SPRG"), so that another program's database is never taken for one. */
export const APPLICATION_ID = 0x53505247;
export const SCHEMA_VERSION = 1;

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
  inTransaction(db, () => {
    const version = pragmaNumber(db, 'user_version');
    const application = pragmaNumber(db, 'application_id');
    const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as { count: number };
    if (version === 0 && application === 0 && tables.count === 0) {
      db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}; ${createTables}`);
      db.prepare('INSERT INTO registry VALUES (1, ?, 0, 0)').run(newEpoch());
    } else if (application !== APPLICATION_ID) {
      throw new Error(`${path} is not a registry file; give another path`);
    } else if (version !== SCHEMA_VERSION) {
      throw new Error(`${path} has format ${version}, this program reads format ${SCHEMA_VERSION}`);
    }
  });
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

export function pragmaNumber(db: DatabaseSync, name: 'user_version' | 'application_id'): number {
  const row = db.prepare(`PRAGMA ${name}`).get() as Record<string, number>;
  return row[name] ?? 0;
}
