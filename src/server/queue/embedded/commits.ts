import type { DatabaseSync } from 'node:sqlite';
import { inTransaction, whyNotStored } from '../../../base/sqlite-file.ts';
import { QueueError } from '../run-queue.ts';

/** Minimum pause between two commits, because a commit blocks the process until the disk responds. */
const GAP_MS = 4;
/** Bounds the time for which one transaction blocks the process. */
const MAX_BATCH = 2_000;
/** How long a failed write is reported as a problem. */
const RECENT_MS = 5_000;

interface PendingWrite {
  work(): unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Group commit: the writes of one turn of the event loop are one transaction. */
export class Commits {
  readonly #db: DatabaseSync;
  readonly #path: string;
  #waiting: PendingWrite[] = [];
  /** Writes that need not reach the disk. */
  #prompt: PendingWrite[] = [];
  #timer: NodeJS.Timeout | null = null;
  #immediate: NodeJS.Immediate | null = null;
  #lastAt = Number.NEGATIVE_INFINITY;
  #problem: string | null = null;
  #isClosed = false;

  constructor(db: DatabaseSync, path: string) {
    this.#db = db;
    this.#path = path;
  }

  /** Resolves to the result of `work` when it is durable. `work` runs later, may run twice, and must only change the database. */
  run<T>(work: () => T): Promise<T> {
    return this.#add(this.#waiting, work);
  }

  /**
   * Commits sooner, for writes that must survive a crash of the process but not of the machine. May overtake writes of
   * {@link run}.
   */
  runPromptly<T>(work: () => T): Promise<T> {
    return this.#add(this.#prompt, work);
  }

  problem(): string | null {
    return performance.now() - this.#lastAt < RECENT_MS ? this.#problem : null;
  }

  /** Commits pending writes first. */
  close(): void {
    this.#isClosed = true;
    this.#commitPrompt();
    while (this.#waiting.length > 0) this.#commit(this.#waiting.splice(0, MAX_BATCH));
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#immediate !== null) clearImmediate(this.#immediate);
  }

  #add<T>(pending: PendingWrite[], work: () => T): Promise<T> {
    if (this.#isClosed) return Promise.reject(new QueueError('closed', 'the node is shutting down'));
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    pending.push({ work, resolve: resolve as (value: unknown) => void, reject });
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    const left = this.#waiting.length > 0 ? this.#lastAt + GAP_MS - performance.now() : Number.POSITIVE_INFINITY;
    if (this.#prompt.length > 0 || left <= 0) this.#immediate ??= setImmediate(() => this.#turn());
    else if (left < Number.POSITIVE_INFINITY) this.#timer ??= setTimeout(() => this.#turn(), left);
  }

  #turn(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    [this.#timer, this.#immediate] = [null, null];
    this.#commitPrompt();
    if (this.#waiting.length > 0 && this.#lastAt + GAP_MS <= performance.now()) {
      this.#commit(this.#waiting.splice(0, MAX_BATCH));
      this.#lastAt = performance.now();
    }
    this.#schedule();
  }

  /** Without fsync: the next durable commit includes these writes. */
  #commitPrompt(): void {
    if (this.#prompt.length === 0) return;
    this.#db.exec('PRAGMA synchronous = NORMAL');
    while (this.#prompt.length > 0) this.#commit(this.#prompt.splice(0, MAX_BATCH));
    this.#db.exec('PRAGMA synchronous = FULL');
  }

  #commit(batch: readonly PendingWrite[]): void {
    if (batch.length === 0) return;
    const outcomes: { readonly value?: unknown; readonly error?: unknown }[] = [];
    try {
      inTransaction(this.#db, () => {
        for (const { work } of batch) outcomes.push(this.#attempt(work));
      });
      this.#problem = null;
    } catch (error) {
      this.#problem = whyNotStored(error);
      this.#lastAt = performance.now();
      const message = `nothing was stored in ${this.#path}: ${this.#problem}`;
      for (const { reject } of batch) reject(new QueueError('not_stored', message));
      return;
    }
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = outcomes[index];
      if (outcome !== undefined && 'error' in outcome) reject(outcome.error);
      else resolve(outcome?.value);
    }
  }

  /** A QueueError fails this write only; an error of the database fails the batch. */
  #attempt(work: () => unknown): { readonly value?: unknown; readonly error?: unknown } {
    try {
      return { value: work() };
    } catch (error) {
      if (error instanceof QueueError) return { error };
      throw error;
    }
  }
}
