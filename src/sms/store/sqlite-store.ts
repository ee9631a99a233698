import { randomUUID } from 'node:crypto';
import { chmodSync, closeSync, mkdirSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { backup, DatabaseSync, type StatementSync } from 'node:sqlite';
import type { JsonValue } from '../../protocol/json.ts';
import { canonicalJson } from '../../protocol/json.ts';
import { parseRecord } from '../../protocol/record-parse.ts';
import { type Durability, type DurableChange, type LocalState, LocalStore, type StoredServer } from './local-store.ts';
import type { StoreOptions } from './memory-store.ts';
import { inTransaction, prepareSchema } from './sqlite-schema.ts';
import { DEFAULT_KEPT_CHANGES, DEFAULT_WATCHER_QUEUE, type RegistryStore } from './store.ts';

/** Records may hold what their authors should have kept out of them, so the files are for their owner alone. */
const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

/** How long another process may hold the file before opening it fails. */
const LOCK_TIMEOUT_MS = 2_000;

export interface SqliteStore extends RegistryStore {
  /** Writes a consistent copy to `path` while the store goes on. Resolves when the copy is complete. */
  backup(path: string): Promise<void>;
}

/** Opens or creates the registry file at `path`. One process owns it at a time. */
export function openSqliteStore(path: string, options: StoreOptions = {}): SqliteStore {
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  const db = openExclusively(path);
  try {
    prepareSchema(db, path, randomUUID);
    return new OwnedSqliteStore(db, path, options);
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * Puts a backup in the place of the registry file at `path`, which no process may have open. The result is another
 * registry than the one before, so it gets an epoch of its own, and every node that sees it lists again.
 */
export async function restoreSqliteStore(backupPath: string, path: string): Promise<void> {
  const incoming = `${path}.restore`;
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  removeDatabase(incoming);
  createPrivately(incoming);
  const source = new DatabaseSync(backupPath, { readOnly: true, timeout: LOCK_TIMEOUT_MS });
  try {
    await backup(source, incoming);
  } finally {
    source.close();
  }
  const copy = openExclusively(incoming);
  try {
    prepareSchema(copy, backupPath, randomUUID);
    const check = copy.prepare('PRAGMA integrity_check').get() as { integrity_check: string };
    if (check.integrity_check !== 'ok') throw new Error(`${backupPath} is damaged: ${check.integrity_check}`);
    copy.prepare('UPDATE registry SET epoch = ?').run(randomUUID());
    copy.exec('PRAGMA journal_mode = DELETE');
  } finally {
    copy.close();
  }
  // Holding the old file open proves that nobody uses it; its journal belongs to it and must not meet the new one.
  const replaced = openExclusively(path);
  replaced.exec('PRAGMA journal_mode = DELETE');
  renameSync(incoming, path);
  replaced.close();
}

class OwnedSqliteStore extends LocalStore implements SqliteStore {
  readonly #db: DatabaseSync;

  constructor(db: DatabaseSync, path: string, options: StoreOptions) {
    super({
      state: readState(db, path),
      durability: new SqliteDurability(db),
      keptChanges: options.keptChanges ?? DEFAULT_KEPT_CHANGES,
      watcherQueue: options.watcherQueue ?? DEFAULT_WATCHER_QUEUE,
      now: options.now ?? Date.now,
    });
    this.#db = db;
  }

  async backup(path: string): Promise<void> {
    const partial = `${path}.partial`;
    removeDatabase(partial);
    createPrivately(partial);
    try {
      await backup(this.#db, partial);
      renameSync(partial, path);
    } finally {
      removeDatabase(partial);
    }
  }
}

class SqliteDurability implements Durability {
  readonly #db: DatabaseSync;
  readonly #putServer: StatementSync;
  readonly #dropServer: StatementSync;
  readonly #logChange: StatementSync;
  readonly #compactLog: StatementSync;
  readonly #setRevision: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#putServer = db.prepare(
      'INSERT INTO servers VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET origin = excluded.origin, record = excluded.record',
    );
    this.#dropServer = db.prepare('DELETE FROM servers WHERE server_id = ?');
    this.#logChange = db.prepare('INSERT INTO changes VALUES (?, ?)');
    this.#compactLog = db.prepare('DELETE FROM changes WHERE revision <= ?');
    this.#setRevision = db.prepare('UPDATE registry SET revision = ?, compacted = ?');
  }

  write(change: DurableChange): void {
    const { revision, serverId, server, compacted } = change;
    inTransaction(this.#db, () => {
      if (server === null) this.#dropServer.run(serverId);
      else this.#putServer.run(serverId, server.origin, canonicalJson(server.record as unknown as JsonValue));
      this.#logChange.run(revision, serverId);
      this.#compactLog.run(compacted);
      this.#setRevision.run(revision, compacted);
    });
  }

  close(): void {
    this.#db.close();
  }
}

function openExclusively(path: string): DatabaseSync {
  createPrivately(path);
  const db = new DatabaseSync(path, { timeout: LOCK_TIMEOUT_MS });
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    // The lock is taken by the first write, so make one before anything relies on it.
    db.exec('BEGIN IMMEDIATE; COMMIT');
    return db;
  } catch (error) {
    db.close();
    const reason = error instanceof Error ? error.message : String(error);
    if (reason.includes('locked')) throw new Error(`${path} is in use by another process`);
    throw new Error(`${path} cannot be opened: ${reason}`);
  }
}

function readState(db: DatabaseSync, path: string): LocalState {
  const registry = db.prepare('SELECT epoch, revision, compacted FROM registry').get() as unknown as LocalState;
  const servers = new Map<string, StoredServer>();
  for (const row of db.prepare('SELECT server_id, origin, record FROM servers').all()) {
    // Parsed like any other input: a record of an older version gets the defaults of fields that came later.
    const parsed = parseRecord(JSON.parse(String(row.record)), { strict: false });
    if (!parsed.ok) {
      const issue = parsed.issues[0];
      throw new Error(`${path}: the stored server "${row.server_id}" is not valid: ${issue?.path} ${issue?.message}`);
    }
    servers.set(String(row.server_id), { record: parsed.record, origin: String(row.origin) });
  }
  const log = db.prepare('SELECT revision, server_id FROM changes ORDER BY revision').all();
  return {
    epoch: registry.epoch,
    revision: registry.revision,
    compacted: registry.compacted,
    servers,
    log: log.map((row) => ({ revision: Number(row.revision), serverId: String(row.server_id) })),
  };
}

function createPrivately(path: string): void {
  closeSync(openSync(path, 'a', PRIVATE_FILE));
  chmodSync(path, PRIVATE_FILE);
}

function removeDatabase(path: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(path + suffix, { force: true });
}
