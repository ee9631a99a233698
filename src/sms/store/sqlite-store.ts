import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { errorText } from '../../base/error-text.ts';
import { LocalStore } from './local-store.ts';
import type { StoreOptions } from './memory-store.ts';
import { writeBackup } from './sqlite-backup.ts';
import { SqliteDurability, whyNotStored } from './sqlite-durability.ts';
import { isMarkedAsBackup, startNewEpoch } from './sqlite-epoch.ts';
import { openExclusively, removeDatabase, sizeOf } from './sqlite-file.ts';
import { prepareSchema } from './sqlite-schema.ts';
import { type ReadState, readState } from './sqlite-state.ts';
import { DEFAULT_KEPT_CHANGES, DEFAULT_WATCHER_QUEUE, type RegistryStore, StoreError } from './store.ts';

export interface SqliteStoreOptions extends StoreOptions {
  /** The file does not grow past this; a write that needs more fails as it does on a full disk. @default no bound */
  readonly maxBytes?: number;
}

export interface SqliteStore extends RegistryStore {
  /** What was wrong with the file, and what to do about it. The store serves what is left. */
  readonly warnings: readonly string[];
  /** Why changes cannot be stored; null where they can. Found out by a write where the last one is not recent. */
  writeProblem(): string | null;
  /** Writes a consistent copy to `path` while the store goes on. Resolves when the copy is complete. */
  backup(path: string): Promise<void>;
}

/** Opens or creates the registry file at `path`. One process owns it at a time. */
export function openSqliteStore(path: string, options: SqliteStoreOptions = {}): SqliteStore {
  const size = sizeOf(path);
  if (size === 0) {
    throw new Error(
      `${path} is empty (0 bytes), so what it held is lost: put a backup in its place with "spear-sms restore FILE", ` +
        'or delete it to begin with an empty registry',
    );
  }
  let db: DatabaseSync | null = null;
  try {
    db = openExclusively(path);
    if (options.maxBytes !== undefined) limitSize(db, options.maxBytes);
    prepareSchema(db, path, randomUUID);
    const wasBackup = isMarkedAsBackup(db);
    if (wasBackup) startNewEpoch(db, 0);
    return new OwnedSqliteStore(db, path, readState(db, path, wasBackup), options);
  } catch (error) {
    db?.close();
    // What could not even be begun must not be taken for a registry that lost its content.
    if (size === null) removeDatabase(path);
    throw explained(error, path);
  }
}

class OwnedSqliteStore extends LocalStore implements SqliteStore {
  readonly #db: DatabaseSync;
  readonly #durability: SqliteDurability;
  readonly warnings: readonly string[];

  constructor(db: DatabaseSync, path: string, { state, warnings }: ReadState, options: StoreOptions) {
    const durability = new SqliteDurability(db, path);
    super({
      state,
      durability,
      keptChanges: options.keptChanges ?? DEFAULT_KEPT_CHANGES,
      watcherQueue: options.watcherQueue ?? DEFAULT_WATCHER_QUEUE,
      now: options.now ?? Date.now,
    });
    this.#db = db;
    this.#durability = durability;
    this.warnings = warnings;
  }

  writeProblem(): string | null {
    return this.#durability.problem();
  }

  async backup(path: string): Promise<void> {
    try {
      await writeBackup(this.#db, path);
    } catch (error) {
      throw new StoreError('not_stored', `the backup was not written to ${path}: ${whyNotStored(error)}`, error);
    }
  }
}

function limitSize(db: DatabaseSync, maxBytes: number): void {
  const { page_size: pageBytes } = db.prepare('PRAGMA page_size').get() as { page_size: number };
  db.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / pageBytes))}`);
}

function explained(error: unknown, path: string): unknown {
  const text = errorText(error);
  if (!/malformed|disk image/.test(text)) return error;
  return new Error(`${path} is damaged (${text}): put a backup in its place with "spear-sms restore FILE"`);
}
