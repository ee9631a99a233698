import type { DatabaseSync } from 'node:sqlite';
import { inTransaction, whyNotStored } from '../../../base/sqlite-file.ts';
import { QueueError } from '../run-queue.ts';

/** A commit waits for the disk, and the whole process with it: so long is left between two of them. */
const GAP_MS = 4;
/** One transaction holds up the process no longer than so many take. */
const MAX_BATCH = 2_000;
/** How long the outcome of a write tells of the next one. */
const RECENT_MS = 5_000;

interface Waiting {
  work(): unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Writes of one turn are one transaction: the disk is waited for once, however many there are. */
export class Commits {
  readonly #db: DatabaseSync;
  readonly #path: string;
  #waiting: Waiting[] = [];
  /** Those that do not wait for the disk. */
  #prompt: Waiting[] = [];
  #timer: NodeJS.Timeout | null = null;
  #immediate: NodeJS.Immediate | null = null;
  #lastAt = Number.NEGATIVE_INFINITY;
  #problem: string | null = null;
  #isClosed = false;

  constructor(db: DatabaseSync, path: string) {
    this.#db = db;
    this.#path = path;
  }

  /** What `work` gives, once it is durable. It runs later, and may run twice: it changes nothing but the database. */
  run<T>(work: () => T): Promise<T> {
    return this.#add(this.#waiting, work);
  }

  /**
   * The same, sooner, for what survives the end of this process and need not survive that of the machine. It may overtake
   * what waits for the disk.
   */
  runPromptly<T>(work: () => T): Promise<T> {
    return this.#add(this.#prompt, work);
  }

  problem(): string | null {
    return performance.now() - this.#lastAt < RECENT_MS ? this.#problem : null;
  }

  /** What waits is written first. */
  close(): void {
    this.#isClosed = true;
    this.#commitPrompt();
    while (this.#waiting.length > 0) this.#commit(this.#waiting.splice(0, MAX_BATCH));
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#immediate !== null) clearImmediate(this.#immediate);
  }

  #add<T>(line: Waiting[], work: () => T): Promise<T> {
    if (this.#isClosed) return Promise.reject(new QueueError('closed', 'the node is shutting down'));
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    line.push({ work, resolve: resolve as (value: unknown) => void, reject });
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

  /** Whatever waits for the disk next brings this with it. */
  #commitPrompt(): void {
    if (this.#prompt.length === 0) return;
    this.#db.exec('PRAGMA synchronous = NORMAL');
    while (this.#prompt.length > 0) this.#commit(this.#prompt.splice(0, MAX_BATCH));
    this.#db.exec('PRAGMA synchronous = FULL');
  }

  #commit(batch: readonly Waiting[]): void {
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

  /** A refusal of ours undoes that one alone; what the database refuses undoes all. */
  #attempt(work: () => unknown): { readonly value?: unknown; readonly error?: unknown } {
    try {
      return { value: work() };
    } catch (error) {
      if (error instanceof QueueError) return { error };
      throw error;
    }
  }
}
