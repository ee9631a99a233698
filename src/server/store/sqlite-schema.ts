import type { DatabaseSync } from 'node:sqlite';
import { errorText } from '../../base/error-text.ts';
import { inTransaction, keepCopy } from '../../base/sqlite-file.ts';

/** Marks a file as a registry ("SPRG"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x53505247;
/** Format of the registry file. Format 1 had servers only. */
export const REGISTRY_FORMAT = 2;

/** Every kind has revisions of its own. A kind that is not known here is left as it is. */
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

/** Format 1 knew servers only. */
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

/** Creates the tables in a new file, brings an older one to this format; refuses a file that cannot be read. */
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

/** All of it or nothing: a file that cannot be brought to this format stays what it was. */
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

/** @throws if it is no registry, or one of a format that this program does not know */
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
