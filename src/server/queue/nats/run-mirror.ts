import { Listeners } from '../../../base/listeners.ts';
import { hasEnded, type RunRecord, type RunStatus, runStatuses } from '../../records/run.ts';
import type { ParkedFor, QueueFacts, RunChange, RunFilter } from '../run-queue.ts';
import type { EntryUpdate } from './entry-feed.ts';
import { parseEntry, type RunEntry } from './run-entries.ts';

/** The part of an entry that the mirror holds. */
interface MirroredRun {
  readonly run: RunRecord;
  readonly created: number;
  readonly revision: number;
  readonly claim: string | null;
  readonly cancel: boolean;
  readonly parkedFor: ParkedFor | null;
}

/** Whole entries of ended runs to hold: a client that waited for the end of a run reads its result next. */
const MAX_ENDED = 256;

/**
 * In-memory copy of all runs, slightly behind the servers: for listing, counting and change notifications. Changes by
 * this node are in it at once.
 */
export class RunMirror {
  readonly #known = new Map<string, MirroredRun>();
  readonly #counts = Object.fromEntries(runStatuses.map((status) => [status, 0])) as Record<RunStatus, number>;
  readonly #waiting = new Map<string, number>();
  readonly #ended = new Map<string, RunEntry>();
  readonly #changes = new Listeners<RunChange>();

  /** Applies an update of the feed. A text that is not an entry removes the run. */
  apply({ id, revision, text }: EntryUpdate): void {
    const entry = text === null ? null : parseEntry(id, text, revision);
    if (entry === null) this.forget(id, revision);
    else this.take(entry);
  }

  /** Ignores an entry older than the known one. */
  take(entry: RunEntry): void {
    const { run, created, revision, claim, cancel, parkedFor } = entry;
    const before = this.#known.get(run.id);
    if ((before?.revision ?? 0) >= revision) return;
    if (before !== undefined) this.#counts[before.run.status] -= 1;
    this.#counts[run.status] += 1;
    this.#known.set(run.id, { run, created, revision, claim, cancel, parkedFor });
    if (run.status === 'queued') this.#waiting.set(run.id, run.submitted_at_ms);
    else this.#waiting.delete(run.id);
    if (hasEnded(run.status)) this.#retainEnded(entry);
    this.#changes.notify({ id: run.id, status: run.status, cancel: cancel && !hasEnded(run.status) });
  }

  forget(id: string, revision: number): void {
    const known = this.#known.get(id);
    if (known === undefined || known.revision >= revision) return;
    this.#known.delete(id);
    this.#waiting.delete(id);
    this.#ended.delete(id);
    this.#counts[known.run.status] -= 1;
  }

  /** The entry of a run that ended recently, which no longer changes; null: not held. */
  ended(id: string): RunEntry | null {
    return this.#ended.get(id) ?? null;
  }

  #retainEnded(entry: RunEntry): void {
    this.#ended.set(entry.run.id, entry);
    for (const [id] of this.#ended) {
      if (this.#ended.size <= MAX_ENDED) return;
      this.#ended.delete(id);
    }
  }

  onChange(listener: (change: RunChange) => void): () => void {
    return this.#changes.add(listener);
  }

  /** Token of the claim; null: not claimed, undefined: unknown run. */
  claimOf(id: string): string | null | undefined {
    return this.#known.get(id)?.claim;
  }

  /** Last known revision; 0: unknown run. */
  revisionOf(id: string): number {
    return this.#known.get(id)?.revision ?? 0;
  }

  /** Queued and running runs, each of which has a work message. */
  get active(): number {
    const { queued, running, waiting } = this.#counts;
    return queued + running + waiting;
  }

  /** Runs queued before `at`. */
  queuedBefore(at: number): readonly RunRecord[] {
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
