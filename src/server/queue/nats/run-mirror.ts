import { Listeners } from '../../../base/listeners.ts';
import { hasEnded, type RunRecord, type RunStatus, runStatuses } from '../../records/run.ts';
import type { ParkedFor, QueueFacts, RunChange, RunFilter } from '../run-queue.ts';
import type { EntryNews } from './entry-feed.ts';
import { parseEntry, type RunEntry } from './run-entries.ts';

/** What is kept here of an entry. */
interface Known {
  readonly run: RunRecord;
  readonly created: number;
  readonly revision: number;
  readonly claim: string | null;
  readonly cancel: boolean;
  readonly parkedFor: ParkedFor | null;
}

/** Whoever waits for the end of a run wants its result next: so many are kept whole. */
const ENDED_KEPT = 256;

/**
 * All runs as they are known here, a moment behind the servers: for listing, counting, and telling of changes. What this
 * node changes itself is in it at once.
 */
export class RunMirror {
  readonly #known = new Map<string, Known>();
  readonly #counts = Object.fromEntries(runStatuses.map((status) => [status, 0])) as Record<RunStatus, number>;
  readonly #waiting = new Map<string, number>();
  readonly #ended = new Map<string, RunEntry>();
  readonly #changes = new Listeners<RunChange>();

  /** What a feed told of an entry. What is none is no run. */
  hear({ id, revision, text }: EntryNews): void {
    const entry = text === null ? null : parseEntry(id, text, revision);
    if (entry === null) this.forget(id, revision);
    else this.take(entry);
  }

  /** What is older than what is known is left out. */
  take(entry: RunEntry): void {
    const { run, created, revision, claim, cancel, parkedFor } = entry;
    const before = this.#known.get(run.id);
    if ((before?.revision ?? 0) >= revision) return;
    if (before !== undefined) this.#counts[before.run.status] -= 1;
    this.#counts[run.status] += 1;
    this.#known.set(run.id, { run, created, revision, claim, cancel, parkedFor });
    if (run.status === 'queued') this.#waiting.set(run.id, run.submitted_at_ms);
    else this.#waiting.delete(run.id);
    if (hasEnded(run.status)) this.#keep(entry);
    this.#changes.tell({ id: run.id, status: run.status, cancel: cancel && !hasEnded(run.status) });
  }

  forget(id: string, revision: number): void {
    const known = this.#known.get(id);
    if (known === undefined || known.revision >= revision) return;
    this.#known.delete(id);
    this.#waiting.delete(id);
    this.#ended.delete(id);
    this.#counts[known.run.status] -= 1;
  }

  /** One of those that ended last: it does not change any more. Null: it is not here. */
  ended(id: string): RunEntry | null {
    return this.#ended.get(id) ?? null;
  }

  #keep(entry: RunEntry): void {
    this.#ended.set(entry.run.id, entry);
    for (const [id] of this.#ended) {
      if (this.#ended.size <= ENDED_KEPT) return;
      this.#ended.delete(id);
    }
  }

  onChange(listener: (change: RunChange) => void): () => void {
    return this.#changes.add(listener);
  }

  /** Whose it is, as far as is known here; undefined: it is not known. */
  claimOf(id: string): string | null | undefined {
    return this.#known.get(id)?.claim;
  }

  /** The latest that was told of it here; 0: nothing was. */
  revisionOf(id: string): number {
    return this.#known.get(id)?.revision ?? 0;
  }

  /** Runs that wait or run: as many messages there are. */
  get underway(): number {
    const { queued, running, waiting } = this.#counts;
    return queued + running + waiting;
  }

  /** Those that wait since before `at`. */
  waitingSince(at: number): readonly RunRecord[] {
    return [...this.#waiting].flatMap(([id, since]) => {
      const run = since < at ? this.#known.get(id)?.run : undefined;
      return run === undefined ? [] : [run];
    });
  }

  endedBefore(at: number, max: number): readonly string[] {
    const found: string[] = [];
    for (const { run } of this.#known.values()) {
      if (found.length === max) break;
      if (hasEnded(run.status) && run.ended_at_ms !== null && run.ended_at_ms < at) found.push(run.id);
    }
    return found;
  }

  page(namespace: string, { task, status, cursor, limit }: RunFilter) {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    const found = [...this.#known.values()]
      .filter(
        ({ run, created }) =>
          run.namespace === namespace &&
          created < before &&
          (task === undefined || run.task === task) &&
          (status === undefined || run.status === status),
      )
      .sort((a, b) => b.created - a.created);
    const shown = found.slice(0, limit);
    const last = found.length > shown.length ? shown.at(-1) : undefined;
    return { runs: shown.map(({ run }) => run), cursor: last === undefined ? null : String(last.created) };
  }

  parked(pool: string, cursor: string | null, limit: number) {
    const after = cursor === null ? 0 : Number(cursor);
    const found = [...this.#known.values()]
      .filter(({ run, created }) => run.status === 'parked' && run.pool === pool && created > after)
      .sort((a, b) => a.created - b.created);
    const shown = found.slice(0, limit);
    const last = found.length > shown.length ? shown.at(-1) : undefined;
    const runs = shown.flatMap(({ run, parkedFor }) =>
      parkedFor === null ? [] : [{ namespace: run.namespace, id: run.id, until: parkedFor }],
    );
    return { runs, cursor: last === undefined ? null : String(last.created) };
  }

  facts(now: number): QueueFacts {
    let oldest: number | null = null;
    for (const since of this.#waiting.values()) if (oldest === null || since < oldest) oldest = since;
    return { byStatus: { ...this.#counts }, oldestQueuedMs: oldest === null ? null : Math.max(0, now - oldest) };
  }
}
