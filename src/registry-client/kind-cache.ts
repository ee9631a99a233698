/**
 * The node's copy of the records of one kind: list, then watch from the listed revision.
 *
 * Invariants
 * - A snapshot is immutable and swapped atomically; listeners run after the swap.
 * - Events are applied in order. A gap, an error, the end of the stream or another epoch leads to a new list.
 * - Within one epoch the snapshot never goes back to an older revision.
 * - A poll detects a stream that stopped without an error.
 *
 * All work runs on one event loop; `close` ends every timer and call. Which registry is used is the source's decision.
 */
import { untilAborted } from '../base/abort.ts';
import { Listeners } from '../base/listeners.ts';
import { backoffMs } from '../base/timing.ts';
import type { RecordKind, RegistryListing, StoreStamps } from '../server/records/record-kind.ts';
import {
  defaultSyncTiming,
  Freshness,
  pollDelayMs,
  type RegistryState,
  type SyncTiming,
  timingFor,
} from './freshness.ts';
import { Lifetime, type RegistryEnvironment, systemEnvironment } from './lifetime.ts';
import {
  applyEvent,
  type RegistryChange,
  type RegistrySnapshot,
  restoreSnapshot,
  type SavedSnapshot,
} from './snapshot.ts';
import { isHeartbeat, type RegistrySource, type RegistryWatchItem } from './source.ts';

export interface KindCacheOptions<R extends StoreStamps> {
  readonly kind: RecordKind<R>;
  readonly source: RegistrySource<R>;
  /** A snapshot that was not confirmed for longer is refused. @default null, never */
  readonly maxStalenessMs?: number | null;
  readonly timing?: Partial<SyncTiming>;
  /** The snapshot of an earlier run: the watch resumes from it, and {@link KindCache.useSaved} may use it. @default null */
  readonly saved?: SavedSnapshot<R> | null;
  readonly environment?: RegistryEnvironment;
}

export interface RegistryStatus {
  readonly state: RegistryState;
  readonly epoch: string | null;
  readonly revision: number | null;
  /** Time since the source last confirmed this revision. */
  readonly ageMs: number | null;
  readonly lastError: string | null;
}

type StatusListener = (status: RegistryStatus) => void;

export class KindCache<R extends StoreStamps> {
  readonly #kind: RecordKind<R>;
  readonly #source: RegistrySource<R>;
  readonly #environment: RegistryEnvironment;
  readonly #timing: SyncTiming;
  readonly #freshness: Freshness;
  readonly #lifetime: Lifetime;
  readonly #changeListeners = new Listeners<RegistryChange<R>>();
  readonly #statusListeners = new Listeners<RegistryStatus>();
  readonly #replacedListeners = new Listeners<RegistrySnapshot<R>>();
  readonly #waiters = new Set<(ready: boolean) => void>();
  readonly #maxStalenessMs: number | null;
  readonly #saved: SavedSnapshot<R> | null;
  #snapshot: RegistrySnapshot<R> | null = null;
  #reportedState: RegistryState = 'starting';
  #stream: AbortController | null = null;
  #streamSpoke = false;
  #cancelStaleness = () => {};
  #running: Promise<void> | null = null;

  constructor(options: KindCacheOptions<R>) {
    this.#kind = options.kind;
    const maxStalenessMs = options.maxStalenessMs ?? null;
    this.#source = options.source;
    this.#environment = options.environment ?? systemEnvironment;
    this.#timing = timingFor({ ...defaultSyncTiming, ...options.timing }, maxStalenessMs);
    this.#freshness = new Freshness(this.#environment, maxStalenessMs, this.#timing.refusalGraceMs);
    this.#maxStalenessMs = maxStalenessMs;
    this.#saved = options.saved ?? null;
    this.#lifetime = new Lifetime(this.#environment);
  }

  start(): void {
    if (this.#running !== null || this.#lifetime.ended) return;
    this.#running = this.#run();
    this.#schedulePoll(0);
  }

  /** Waits for the first snapshot, at most `deadlineMs`. False: no snapshot in time, or the cache was closed. */
  ready(deadlineMs: number): Promise<boolean> {
    if (this.#snapshot !== null || this.#lifetime.ended) return Promise.resolve(this.#snapshot !== null);
    return new Promise((resolve) => {
      const settle = (ready: boolean) => {
        this.#waiters.delete(settle);
        cancel();
        resolve(ready);
      };
      const cancel = this.#lifetime.after(deadlineMs, () => settle(false));
      this.#waiters.add(settle);
    });
  }

  /**
   * Uses the snapshot of an earlier run until the source answers. Returns its age; null if it cannot be used: there is none, it
   * is too old, or the source refuses this node.
   */
  useSaved(): number | null {
    if (this.#saved === null || this.#snapshot !== null || this.#freshness.isRefused) return null;
    const { snapshot, confirmedAtMs } = this.#saved;
    const age = this.#environment.now() - confirmedAtMs;
    // From the future: its age is unknown.
    if (this.#maxStalenessMs !== null && (age < 0 || age > this.#maxStalenessMs)) return null;
    this.#freshness.assume(confirmedAtMs);
    this.#snapshot = snapshot;
    this.#watchStaleness();
    this.#reportState();
    return Math.max(0, age);
  }

  snapshot(): RegistrySnapshot<R> | null {
    return this.#snapshot;
  }

  /** Whether the snapshot was not confirmed for too long and must not be used. */
  get isStale(): boolean {
    return this.#freshness.isStale;
  }

  status(): RegistryStatus {
    const { state, ageMs, lastError } = this.#freshness;
    return {
      state,
      epoch: this.#snapshot?.epoch ?? null,
      revision: this.#snapshot?.revision ?? null,
      ageMs,
      lastError,
    };
  }

  /** Called after every swap that changed a record or the registry's epoch, and after the first one. Returns a function that removes the listener. */
  onChange(listener: (change: RegistryChange<R>) => void): () => void {
    return this.#changeListeners.add(listener);
  }

  /** Called when the state changes. */
  onStatus(listener: StatusListener): () => void {
    return this.#statusListeners.add(listener);
  }

  /** Called when the registry was replaced: restored from a backup, or created again. */
  onReplaced(listener: (now: RegistrySnapshot<R>) => void): () => void {
    return this.#replacedListeners.add(listener);
  }

  async close(): Promise<void> {
    this.#lifetime.end(new Error('the registry cache is closed'));
    for (const settle of this.#waiters) settle(false);
    await this.#running;
  }

  async #run(): Promise<void> {
    let failures = 0;
    // With a saved revision only later changes are needed; if that fails, a list follows.
    let needsList = this.#saved === null;
    while (!this.#lifetime.ended) {
      const startedAtMs = this.#environment.monotonic();
      this.#streamSpoke = false;
      try {
        if (needsList) this.#restore(await this.#list());
        needsList = true;
        await this.#follow();
      } catch (error) {
        this.#fail(error);
      }
      // A stream that ended early without a message may never work: only a useful stream resets the backoff.
      const lasted = this.#environment.monotonic() - startedAtMs >= this.#timing.backoff.maxMs;
      failures = this.#streamSpoke || lasted ? 1 : failures + 1;
      await this.#lifetime.pause(backoffMs(this.#timing.backoff, failures, this.#environment));
    }
  }

  /** Never returns normally: every end of a stream is a reason to list again. */
  #follow(): Promise<never> {
    return this.#lifetime.during(async (stream) => {
      const from = this.#snapshot ?? this.#saved?.snapshot;
      const items = this.#source.watch(from?.revision ?? 0, stream.signal)[Symbol.asyncIterator]();
      this.#stream = stream;
      const limit = this.#timing.listTimeoutMs;
      const tooLate = () => stream.abort(new Error(`no message on the watch stream for ${limit} ms`));
      const cancel = this.#snapshot === null ? this.#lifetime.after(limit, tooLate) : () => {};
      try {
        for (;;) {
          const step = await untilAborted(items.next(), stream.signal);
          if (step.done === true) throw new Error('the watch stream ended');
          cancel();
          await this.#take(step.value);
        }
      } finally {
        cancel();
        this.#stream = null;
        stream.abort();
        // The source may block in its cleanup. It was aborted, so do not wait for it.
        items.return?.().catch(() => {});
      }
    });
  }

  async #take(item: RegistryWatchItem<R>): Promise<void> {
    const snapshot = this.#snapshot ?? this.#saved?.snapshot;
    if (snapshot === undefined) return;
    if (item.epoch !== snapshot.epoch) throw new Error('the registry epoch changed: it was restored or replaced');
    if (isHeartbeat(item)) {
      if (item.revision > snapshot.revision) throw new Error('the watch stream missed a change');
      if (item.revision < snapshot.revision) return;
      if (this.#snapshot === null) this.#resume(snapshot);
      else this.#confirm();
    } else if (item.revision > snapshot.revision) {
      if (!this.#source.canWatchRecords) this.#adopt(await this.#list(), snapshot);
      else if (item.prevRevision === snapshot.revision) {
        if (this.#snapshot === null) this.#resume(snapshot);
        this.#swap(applyEvent(this.#kind, snapshot, item));
      } else throw new Error(`the watch stream jumped from revision ${snapshot.revision} to ${item.prevRevision}`);
    }
    this.#streamSpoke = true;
  }

  /** The source continued from the saved snapshot, which confirms it. */
  #resume(snapshot: RegistrySnapshot<R>): void {
    this.#swap({ snapshot, upserted: [...snapshot.records.keys()].sort(), deleted: [] });
  }

  /** One of several registries on a store may be behind the others: the list is retried, perhaps on another registry. */
  #restore(listing: RegistryListing<R>): void {
    const known = this.#snapshot ?? this.#saved?.snapshot;
    if (known !== undefined && known.epoch !== '' && isBehind(known, listing)) {
      throw new Error(
        `the registry is at revision ${listing.revision}, older than the known revision ${known.revision}`,
      );
    }
    this.#swap(restoreSnapshot(this.#kind, this.#snapshot, listing));
  }

  /** Applies a list that was requested at `before`, unless the stream is ahead of it. Returns whether it was newer. */
  #adopt(listing: RegistryListing<R>, before: RegistrySnapshot<R>): boolean {
    const current = this.#snapshot?.revision ?? 0;
    const replaced = listing.epoch !== before.epoch || isBehind(before, listing);
    if (!replaced && listing.revision < current) return false;
    if (replaced || listing.revision > current) {
      this.#restore(listing);
      return true;
    }
    this.#confirm();
    return false;
  }

  #swap(change: RegistryChange<R>): void {
    const first = this.#snapshot === null;
    const replaced = this.#snapshot !== null && isAnother(this.#snapshot, change.snapshot);
    this.#snapshot = change.snapshot;
    this.#confirm();
    if (first) this.#watchStaleness();
    for (const settle of this.#waiters) settle(true);
    if (replaced) this.#replacedListeners.notify(change.snapshot);
    if (first || replaced || change.upserted.length > 0 || change.deleted.length > 0) {
      this.#changeListeners.notify(change);
    }
  }

  #list(): Promise<RegistryListing<R>> {
    const limit = this.#timing.listTimeoutMs;
    return this.#lifetime.during(async (call) => {
      const cancel = this.#lifetime.after(limit, () => call.abort(new Error(`the list took longer than ${limit} ms`)));
      try {
        return await untilAborted(this.#source.list(call.signal), call.signal);
      } finally {
        cancel();
      }
    });
  }

  #schedulePoll(failures: number): void {
    if (this.#lifetime.ended) return;
    const regular = pollDelayMs(this.#timing, this.#environment);
    const delay =
      failures === 0 ? regular : Math.min(regular, backoffMs(this.#timing.backoff, failures, this.#environment));
    this.#lifetime.after(delay, () => {
      this.#poll().then(
        () => this.#schedulePoll(0),
        (error: unknown) => {
          this.#fail(error);
          this.#schedulePoll(failures + 1);
        },
      );
    });
  }

  /** A list costs the source far more than a heartbeat, so it is skipped if the stream confirmed the snapshot recently. */
  async #poll(): Promise<void> {
    const before = this.#snapshot;
    const age = this.#freshness.ageMs;
    if (before === null || this.#stream === null || (age !== null && age < this.#timing.pollMinMs)) return;
    const news = this.#adopt(await this.#list(), before);
    if (news) this.#stream?.abort(new Error('a poll found a change that the watch stream did not deliver'));
  }

  #confirm(): void {
    this.#freshness.confirm();
    this.#reportState();
  }

  #fail(error: unknown): void {
    if (this.#lifetime.ended) return;
    const wasRefused = this.#freshness.isRefused;
    this.#freshness.fail(error);
    this.#reportState();
    if (this.#freshness.isRefused && !wasRefused) this.#watchStaleness();
  }

  #reportState(): void {
    const { state } = this.#freshness;
    if (state === this.#reportedState) return;
    this.#reportedState = state;
    this.#statusListeners.notify(this.status());
  }

  #watchStaleness(): void {
    this.#cancelStaleness();
    const left = this.#freshness.leftMs;
    if (left === null || this.#lifetime.ended) return;
    this.#reportState();
    // Once stale, only a confirmation changes the state, and it reports the change itself; check again at the poll interval.
    this.#cancelStaleness = this.#lifetime.after(left < 0 ? this.#timing.pollMaxMs : left + 1, () =>
      this.#watchStaleness(),
    );
  }
}

/** A registry without epochs whose revision went back was replaced. */
function isAnother(before: RegistrySnapshot<unknown>, now: RegistrySnapshot<unknown>): boolean {
  return now.epoch !== before.epoch || now.revision < before.revision;
}

/** Within one registry revisions never go back. */
function isBehind(known: RegistrySnapshot<unknown>, listing: RegistryListing<unknown>): boolean {
  return listing.epoch === known.epoch && listing.revision < known.revision;
}
