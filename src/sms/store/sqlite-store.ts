import { randomUUID } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { canonicalJson, type JsonValue } from '../../base/json.ts';
import { parseRecord } from '../../protocol/record-parse.ts';
import { type Durability, type DurableChange, type LocalState, LocalStore, type StoredServer } from './local-store.ts';
import type { StoreOptions } from './memory-store.ts';
import { writeBackup } from './sqlite-backup.ts';
import { openExclusively } from './sqlite-file.ts';
import { inTransaction, prepareSchema } from './sqlite-schema.ts';
import { DEFAULT_KEPT_CHANGES, DEFAULT_WATCHER_QUEUE, type RegistryStore } from './store.ts';

export interface SqliteStore extends RegistryStore {
  /** Writes a consistent copy to `path` while the store goes on. Resolves when the copy is complete. */
  backup(path: string): Promise<void>;
}

/** Opens or creates the registry file at `path`. One process owns it at a time. */
export function openSqliteStore(path: string, options: StoreOptions = {}): SqliteStore {
  const db = openExclusively(path);
  try {
    prepareSchema(db, path, randomUUID);
    return new OwnedSqliteStore(db, path, options);
  } catch (error) {
    db.close();
    throw error;
  }
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

  backup(path: string): Promise<void> {
    return writeBackup(this.#db, path);
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
