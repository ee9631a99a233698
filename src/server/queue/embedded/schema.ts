import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { checkIntegrity, editDatabase, inTransaction, keepCopy } from '../../../base/sqlite-file.ts';
import { endStatuses } from '../../records/run.ts';
import { RunTable } from './run-table.ts';

/** Marks a file as a queue ("SPRQ"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x53505251;
/** Format of `runs.db`. Format 1 had no parked runs. */
export const RUNS_FORMAT = 2;

/** Added by format 2. */
const createParked = `
  CREATE TABLE parked (
    seq INTEGER PRIMARY KEY,
    pool TEXT NOT NULL,
    until TEXT NOT NULL
  ) STRICT;
  CREATE INDEX parked_by_pool ON parked (pool, seq);
`;

/** Restoring a backup starts a new epoch, so that runs of earlier epochs can be recognized. The first epoch is ''. */
const createEpoch = `
  CREATE TABLE IF NOT EXISTS epoch (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), epoch TEXT NOT NULL) STRICT;
  INSERT OR IGNORE INTO epoch VALUES (1, '');
`;

const createTables = `
  CREATE TABLE runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    task TEXT NOT NULL,
    revision INTEGER NOT NULL,
    wasm TEXT NOT NULL,
    pool TEXT NOT NULL,
    status TEXT NOT NULL,
    submitted_by TEXT NOT NULL,
    submitted_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    node TEXT,
    exit TEXT,
    cost TEXT,
    input_bytes INTEGER NOT NULL,
    input_sha256 TEXT NOT NULL,
    result_bytes INTEGER,
    retry_of TEXT,
    traceparent TEXT,
    cancel INTEGER NOT NULL DEFAULT 0,
    status_reason TEXT,
    degraded TEXT,
    first_submitted_by TEXT,
    epoch TEXT
  ) STRICT;
  CREATE INDEX runs_by_namespace ON runs (namespace, task, seq);
  CREATE INDEX runs_by_status ON runs (status, seq);
  CREATE TABLE inputs (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
  CREATE TABLE spent (
    day TEXT NOT NULL,
    scope TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (day, scope)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE results (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
`;

/** Creates or upgrades the tables. @throws Error if the file belongs to another program or has an unknown format */
export function prepareSchema(db: DatabaseSync, path: string): void {
  const pragma = (name: 'user_version' | 'application_id') =>
    Number((db.prepare(`PRAGMA ${name}`).get() as Record<string, unknown>)[name] ?? 0);
  const { count } = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as { count: number };
  if (count === 0 && pragma('application_id') === 0) {
    inTransaction(db, () =>
      db.exec(
        `PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${RUNS_FORMAT}; ${createTables} ${createParked} ${createEpoch}`,
      ),
    );
    return;
  }
  if (pragma('application_id') !== APPLICATION_ID) throw new Error(`${path} is not a run queue`);
  const format = pragma('user_version');
  if (format === 1) {
    keepCopy(db, path, format);
    inTransaction(db, () => db.exec(`PRAGMA user_version = ${RUNS_FORMAT}; ${createParked}`));
  } else if (format !== RUNS_FORMAT)
    throw new Error(`${path} has format ${format}; this version reads formats 1 to ${RUNS_FORMAT}`);
  addMissingColumns(db);
  db.exec(createEpoch);
}

/** Adds nullable columns that older files lack. Older versions read a file that has them. */
function addMissingColumns(db: DatabaseSync): void {
  const known = new Set(
    db
      .prepare('PRAGMA table_info(runs)')
      .all()
      .map(({ name }) => name),
  );
  for (const column of ['traceparent', 'status_reason', 'degraded', 'first_submitted_by', 'epoch']) {
    if (!known.has(column)) db.exec(`ALTER TABLE runs ADD COLUMN ${column} TEXT`);
  }
}

const RESTORED = 'restored from a backup: the outcome of calls that are not in its journal is unknown';

/**
 * Makes the copy of a queue the start of a new epoch. Runs of earlier epochs that had not ended may have continued after
 * the backup was made; the queue marks their claims. Returns how many there are. `name` is for errors.
 */
export function startQueueEpoch(path: string, name: string): number {
  return editDatabase(path, (db) => {
    checkIntegrity(db, name);
    prepareSchema(db, path);
    const ended = endStatuses.map((status) => `'${status}'`).join(', ');
    let open = 0;
    inTransaction(db, () => {
      // The node does the same at its start, which would clear the reason below.
      new RunTable(db).recover();
      db.prepare('UPDATE epoch SET epoch = ?').run(randomUUID());
      const sql = `UPDATE runs SET status_reason = ? WHERE status NOT IN (${ended})`;
      open = Number(db.prepare(sql).run(RESTORED).changes);
    });
    return open;
  });
}
