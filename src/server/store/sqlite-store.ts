import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { errorText } from '../../base/error-text.ts';
import { openExclusively, removeDatabase, sizeOf, whyNotStored } from '../../base/sqlite-file.ts';
import { type Approval, approvalKind } from '../records/approval.ts';
import { type PinnedDefinition, pinKind } from '../records/pin.ts';
import { type McpProfile, profileKind } from '../records/profile.ts';
import type { RecordKind, StoreStamps } from '../records/record-kind.ts';
import type { McpServerRecord } from '../records/server.ts';
import { serverKind } from '../records/server.ts';
import type { StopRecord } from '../records/stop.ts';
import { stopKind } from '../records/stop-kind.ts';
import { type TaskRecord, type TaskRevisionRecord, taskKind, taskRevisionKind } from '../records/task.ts';
import { type TokenRecord, type TokenUse, tokenKind, tokenUseKind } from '../records/token.ts';
import { LocalStore } from './local-store.ts';
import { localOptions, type StoreOptions } from './memory-store.ts';
import { writeBackup } from './sqlite-backup.ts';
import { SqliteDurability } from './sqlite-durability.ts';
import { isMarkedAsBackup, startNewEpoch } from './sqlite-epoch.ts';
import { prepareSchema } from './sqlite-schema.ts';
import { readState } from './sqlite-state.ts';
import { type RegistryStore, StoreError } from './store.ts';

export interface SqliteStoreOptions extends StoreOptions {
  /** The file does not grow past this; a write that needs more fails as it does on a full disk. @default no bound */
  readonly maxBytes?: number;
}

export interface SqliteStore extends RegistryStore {
  /** In the same file, with revisions of their own; closed with it. */
  readonly profiles: RegistryStore<McpProfile>;
  readonly approvals: RegistryStore<Approval>;
  readonly pins: RegistryStore<PinnedDefinition>;
  readonly tokens: RegistryStore<TokenRecord>;
  readonly tokenUses: RegistryStore<TokenUse>;
  readonly tasks: RegistryStore<TaskRecord>;
  readonly taskRevisions: RegistryStore<TaskRevisionRecord>;
  readonly stops: RegistryStore<StopRecord>;
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
      `${path} is empty (0 bytes), so its content is lost: restore a backup with "spear-sms restore FILE", ` +
        'or delete the file to start with an empty registry',
    );
  }
  let db: DatabaseSync | null = null;
  try {
    db = openExclusively(path);
    // What a change of format takes for a moment is not what the file grows to.
    if (size !== null) prepareSchema(db, path, randomUUID);
    if (options.maxBytes !== undefined) limitSize(db, options.maxBytes);
    if (size === null) prepareSchema(db, path, randomUUID);
    const wasBackup = isMarkedAsBackup(db);
    if (wasBackup) startNewEpoch(db, 0);
    return new OwnedSqliteStore(db, path, wasBackup, options);
  } catch (error) {
    db?.close();
    // What could not even be begun must not be taken for a registry that lost its content.
    if (size === null) removeDatabase(path);
    throw explained(error, path);
  }
}

class OwnedSqliteStore extends LocalStore<McpServerRecord> implements SqliteStore {
  readonly #db: DatabaseSync;
  readonly #durability: SqliteDurability;
  readonly profiles: RegistryStore<McpProfile>;
  readonly approvals: RegistryStore<Approval>;
  readonly pins: RegistryStore<PinnedDefinition>;
  readonly tokens: RegistryStore<TokenRecord>;
  readonly tokenUses: RegistryStore<TokenUse>;
  readonly tasks: RegistryStore<TaskRecord>;
  readonly taskRevisions: RegistryStore<TaskRevisionRecord>;
  readonly stops: RegistryStore<StopRecord>;
  readonly warnings: readonly string[];

  constructor(db: DatabaseSync, path: string, wasBackup: boolean, options: StoreOptions) {
    const durability = new SqliteDurability(db, path);
    const { state, warnings } = readState(db, path, serverKind);
    super({ kind: serverKind, state, durability: durability.of(serverKind.name), ...localOptions(options) });
    this.#db = db;
    this.#durability = durability;
    const problems = [...warnings];
    const open = <R extends StoreStamps>(kind: RecordKind<R>): RegistryStore<R> => {
      const read = readState(db, path, kind);
      problems.push(...read.warnings);
      return new LocalStore({
        kind,
        state: read.state,
        durability: durability.of(kind.name),
        ...localOptions(options),
      });
    };
    this.profiles = open(profileKind);
    this.approvals = open(approvalKind);
    this.pins = open(pinKind);
    this.tokens = open(tokenKind);
    this.tokenUses = open(tokenUseKind);
    this.tasks = open(taskKind);
    this.taskRevisions = open(taskRevisionKind);
    this.stops = open(stopKind);
    const another = `${path} was restored from a backup; the registry has a new epoch, and every node resyncs`;
    this.warnings = [...(wasBackup ? [another] : []), ...problems];
  }

  override async close(): Promise<void> {
    const closing = [
      super.close(),
      ...[this.profiles, this.approvals, this.pins, this.tokens, this.tokenUses].map((store) => store.close()),
      ...[this.tasks, this.taskRevisions, this.stops].map((store) => store.close()),
    ];
    this.#durability.close();
    await Promise.all(closing);
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
  return new Error(`${path} is damaged (${text}): restore a backup with "spear-sms restore FILE"`);
}
