/**
 * The registry in one SQLite file: all kinds in one database, answered from memory.
 *
 * Invariants
 * - One process owns the file; opening it a second time fails.
 * - Every step is one transaction, and durable before it is visible (see local-store.ts).
 * - A stored record that cannot be read is skipped with a warning; it can be replaced or removed.
 * - A file that is a copy gets a new epoch when it is opened, so that nodes resync.
 *
 * File format and epochs are in sqlite-schema.ts, backup and restore in sqlite-backup.ts.
 */
import { randomUUID } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { errorText } from '../../base/errors.ts';
import { inTransaction, openExclusively, removeDatabase, sizeOf, whyNotStored } from '../../base/sqlite-file.ts';
import { leftOut, type RecordKind, readRecordText, type StoreStamps } from '../records/record-kind.ts';
import {
  type Durability,
  type DurableStep,
  type LocalState,
  LocalStore,
  localOptions,
  type StoreOptions,
} from './local-store.ts';
import type { Stored } from './record-memory.ts';
import { writeBackup } from './sqlite-backup.ts';
import { isMarkedAsBackup, prepareSchema, startNewEpoch } from './sqlite-schema.ts';
import { type RegistryDatabase, StoreError, storesOf } from './store.ts';

export interface SqliteStoreOptions extends StoreOptions {
  /** Maximum size of the file; a write beyond it fails as on a full disk. @default no limit */
  readonly maxBytes?: number;
}

export interface SqliteDatabase extends RegistryDatabase {
  readonly backup: (path: string) => Promise<void>;
}

/** Opens or creates the registry file at `path`. One process owns it at a time. */
export function openSqliteStore(path: string, options: SqliteStoreOptions = {}): SqliteDatabase {
  const size = sizeOf(path);
  if (size === 0) {
    throw new Error(
      `${path} is empty (0 bytes), so its content is lost: restore a backup with "spear-sms restore FILE", ` +
        'or delete the file to start with an empty registry',
    );
  }
  let db: DatabaseSync | null = null;
  try {
    db = openExclusively(path);
    // A migration may exceed the limit for a moment.
    if (size !== null) prepareSchema(db, path, randomUUID);
    if (options.maxBytes !== undefined) limitSize(db, options.maxBytes);
    if (size === null) prepareSchema(db, path, randomUUID);
    const wasBackup = isMarkedAsBackup(db);
    if (wasBackup) startNewEpoch(db, 0);
    return databaseOf(db, path, wasBackup, options);
  } catch (error) {
    db?.close();
    // Leave no empty file behind: the next start would report lost content.
    if (size === null) removeDatabase(path);
    throw explained(error, path);
  }
}

function databaseOf(db: DatabaseSync, path: string, wasBackup: boolean, options: StoreOptions): SqliteDatabase {
  const durability = new SqliteDurability(db, path);
  const restored = `${path} was restored from a backup; the registry has a new epoch, and every node resyncs`;
  const warnings = wasBackup ? [restored] : [];
  const stores = storesOf((kind) => {
    const read = readState(db, path, kind);
    warnings.push(...read.warnings);
    return new LocalStore({ kind, state: read.state, durability: durability.of(kind.name), ...localOptions(options) });
  });
  return {
    ...stores,
    warnings,
    writeProblem: () => durability.problem(),
    async backup(copy) {
      try {
        await writeBackup(db, copy);
      } catch (error) {
        throw new StoreError('not_stored', `the backup was not written to ${copy}: ${whyNotStored(error)}`, error);
      }
    },
    async close() {
      const closing = Object.values(stores).map((store) => store.close());
      durability.close();
      await Promise.all(closing);
    },
  };
}

function limitSize(db: DatabaseSync, maxBytes: number): void {
  const { page_size: pageBytes } = db.prepare('PRAGMA page_size').get() as { page_size: number };
  db.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / pageBytes))}`);
}

function explained(error: unknown, path: string): unknown {
  const text = errorText(error);
  if (!/malformed|disk image/.test(text)) return error;
  return new Error(`${path} is damaged (${text}): restore a backup with "spear-sms restore FILE"`);
}

/** How long the result of a write predicts the next one: health checks are frequent. */
const RECENT_MS = 5_000;

/** Writes the changes of all kinds to an open database, each step in one transaction, and remembers whether writes work. */
export class SqliteDurability {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  readonly #logChange: StatementSync;
  readonly #compactLog: StatementSync;
  readonly #setRevision: StatementSync;
  readonly #touch: StatementSync;
  #problem: string | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;

  constructor(db: DatabaseSync, path: string) {
    this.#db = db;
    this.#path = path;
    this.#put = db.prepare(
      'INSERT INTO records VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET origin = excluded.origin, record = excluded.record',
    );
    this.#drop = db.prepare('DELETE FROM records WHERE kind = ? AND id = ?');
    this.#logChange = db.prepare('INSERT INTO changes VALUES (?, ?, ?)');
    this.#compactLog = db.prepare('DELETE FROM changes WHERE kind = ? AND revision <= ?');
    this.#setRevision = db.prepare(
      'INSERT INTO kinds VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET revision = excluded.revision, compacted = excluded.compacted',
    );
    this.#touch = db.prepare('UPDATE registry SET epoch = epoch');
  }

  /** The durability of one kind; closing it leaves the database open. */
  of(kind: string): Durability {
    return { write: (step) => this.#write(kind, step), close: () => {} };
  }

  problem(): string | null {
    if (performance.now() - this.#triedAt < RECENT_MS) return this.#problem;
    try {
      this.#try(() => this.#touch.run());
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
    return this.#problem;
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  #write(kind: string, { changes, revision, compacted }: DurableStep): void {
    this.#try(() => {
      for (const { id, stored, ...change } of changes) {
        if (stored === null) this.#drop.run(kind, id);
        else this.#put.run(kind, id, stored.origin, recordText(stored));
        this.#logChange.run(kind, change.revision, id);
      }
      this.#compactLog.run(kind, compacted);
      this.#setRevision.run(kind, revision, compacted);
    });
  }

  #try(work: () => void): void {
    this.#triedAt = performance.now();
    try {
      inTransaction(this.#db, work);
      this.#problem = null;
    } catch (error) {
      this.#problem = whyNotStored(error);
      const message = `nothing was changed in ${this.#path}: ${this.#problem}; reads still work`;
      throw new StoreError('not_stored', message, error);
    }
  }
}

/** The staged content with the two fields that the store adds. */
function recordText({
  record,
  content,
}: {
  readonly record: { mod_revision: number; updated_at_ms: number };
  readonly content: string;
}) {
  return `{"mod_revision":${record.mod_revision},"updated_at_ms":${record.updated_at_ms},${content.slice(1)}`;
}

export interface ReadState<R> {
  readonly state: LocalState<R>;
  /** What is wrong with the stored records, and advice to the operator. */
  readonly warnings: readonly string[];
}

/** All records of a kind in an open registry file. A record that cannot be read is skipped. */
export function readState<R extends StoreStamps>(db: DatabaseSync, path: string, kind: RecordKind<R>): ReadState<R> {
  const registry = db.prepare('SELECT epoch FROM registry').get();
  const revisions = db.prepare('SELECT revision, compacted FROM kinds WHERE kind = ?').get(kind.name);
  const records = new Map<string, Stored<R>>();
  const damaged: string[] = [];
  const warnings: string[] = [];
  for (const row of db.prepare('SELECT id, origin, record FROM records WHERE kind = ?').all(kind.name)) {
    const id = String(row.id);
    const read = readRecordText(kind, id, String(row.record));
    if ('problem' in read) {
      damaged.push(id);
      warnings.push(leftOut(path, kind, id, read.problem));
    } else records.set(id, { record: read.record, origin: String(row.origin) });
  }
  const log = db.prepare('SELECT revision, id FROM changes WHERE kind = ? ORDER BY revision').all(kind.name);
  const state = {
    epoch: String(registry?.epoch ?? ''),
    revision: Number(revisions?.revision ?? 0),
    compacted: Number(revisions?.compacted ?? 0),
    records,
    log: log.map((row) => ({ revision: Number(row.revision), id: String(row.id) })),
    damaged,
  };
  return { state, warnings };
}
