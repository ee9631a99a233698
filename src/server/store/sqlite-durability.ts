import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { inTransaction, whyNotStored } from '../../base/sqlite-file.ts';
import type { Durability, DurableStep } from './local-store.ts';
import { StoreError } from './store.ts';

/** How long the outcome of a write tells of the next one: whoever asks may do so often. */
const RECENT_MS = 5_000;

/** Writes steps of all kinds to an open database, each in one transaction, and knows whether that works. */
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

  /** Of one kind of record; closing it leaves the database open for the others. */
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
