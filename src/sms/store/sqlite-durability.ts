import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { errorText } from '../../base/error-text.ts';
import type { Durability, DurableStep } from './local-store.ts';
import { inTransaction } from './sqlite-schema.ts';
import { StoreError } from './store.ts';

/** How long the outcome of a write tells of the next one: whoever asks may do so often. */
const RECENT_MS = 5_000;

// Primary result codes of SQLite.
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;

/** Writes steps to an open database, each in one transaction, and knows whether that works. */
export class SqliteDurability implements Durability {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #putServer: StatementSync;
  readonly #dropServer: StatementSync;
  readonly #logChange: StatementSync;
  readonly #compactLog: StatementSync;
  readonly #setRevision: StatementSync;
  readonly #touch: StatementSync;
  #problem: string | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;

  constructor(db: DatabaseSync, path: string) {
    this.#db = db;
    this.#path = path;
    this.#putServer = db.prepare(
      'INSERT INTO servers VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET origin = excluded.origin, record = excluded.record',
    );
    this.#dropServer = db.prepare('DELETE FROM servers WHERE server_id = ?');
    this.#logChange = db.prepare('INSERT INTO changes VALUES (?, ?)');
    this.#compactLog = db.prepare('DELETE FROM changes WHERE revision <= ?');
    this.#setRevision = db.prepare('UPDATE registry SET revision = ?, compacted = ?');
    this.#touch = db.prepare('UPDATE registry SET revision = revision');
  }

  write({ changes, revision, compacted }: DurableStep): void {
    this.#try(() => {
      for (const change of changes) {
        if (change.server === null) this.#dropServer.run(change.serverId);
        else this.#putServer.run(change.serverId, change.server.origin, recordText(change.server));
        this.#logChange.run(change.revision, change.serverId);
      }
      this.#compactLog.run(compacted);
      this.#setRevision.run(revision, compacted);
    });
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
    this.#db.close();
  }

  #try(work: () => void): void {
    this.#triedAt = performance.now();
    try {
      inTransaction(this.#db, work);
      this.#problem = null;
    } catch (error) {
      this.#problem = whyNotStored(error);
      const message = `nothing was changed in ${this.#path}: ${this.#problem}; what was there still holds and is served`;
      throw new StoreError('not_stored', message, error);
    }
  }
}

/** Without the path: anybody may be told. */
export function whyNotStored(error: unknown): string {
  const reason = errorText(error);
  const code = Number((error as { readonly errcode?: unknown }).errcode ?? 0) & 0xff;
  if (code === SQLITE_FULL) return `there is no room left on its disk (${reason}); make room, then try again`;
  if (code === SQLITE_IOERR) {
    return `its disk cannot be written (${reason}); it may be full, over a quota or broken: mend that, then try again`;
  }
  return code === SQLITE_READONLY ? `its file may only be read (${reason}); mend that, then try again` : reason;
}

/** The content as it was staged, with the two fields that the store gives it. */
function recordText({
  record,
  content,
}: {
  readonly record: { mod_revision: number; updated_at_ms: number };
  readonly content: string;
}) {
  return `{"mod_revision":${record.mod_revision},"updated_at_ms":${record.updated_at_ms},${content.slice(1)}`;
}
