import type { RegistryEvent, RegistryListing, StoreStamps } from '../records/record-kind.ts';
import { StoreError } from './store.ts';
import { failedWatch, WatchHub } from './watch-hub.ts';

/** A record as a backend holds it. */
export interface Stored<R> {
  readonly record: R;
  readonly origin: string;
}

export interface LoggedChange {
  readonly revision: number;
  readonly id: string;
}

/** A change as it becomes visible; null: the record was removed. */
export interface VisibleChange<S> extends LoggedChange {
  readonly stored: S | null;
}

export interface MemoryState<S> {
  readonly revision: number;
  /** The log no longer has changes up to this revision. */
  readonly compacted: number;
  readonly records: ReadonlyMap<string, S>;
  /** Oldest first. */
  readonly log: readonly LoggedChange[];
}

export interface MemoryBounds {
  readonly keptChanges: number;
  readonly watcherQueue: number;
}

/**
 * The records of one kind in memory, with their change log and watchers. All reads and changes are synchronous, so that a
 * watch has no gaps.
 */
export class RecordMemory<R extends StoreStamps, S extends Stored<R> = Stored<R>> {
  readonly epoch: string;
  readonly #keptChanges: number;
  readonly #records: Map<string, S>;
  readonly #log: LoggedChange[];
  readonly #hub: WatchHub<RegistryEvent<R>>;
  #revision: number;
  #compacted: number;
  #isClosed = false;

  constructor(epoch: string, state: MemoryState<S>, { keptChanges, watcherQueue }: MemoryBounds) {
    this.epoch = epoch;
    this.#keptChanges = keptChanges;
    this.#records = new Map(state.records);
    this.#log = [...state.log];
    this.#revision = state.revision;
    this.#compacted = state.compacted;
    this.#hub = new WatchHub(watcherQueue);
  }

  get revision(): number {
    return this.#revision;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get(id: string): S | undefined {
    return this.#records.get(id);
  }

  entries(): IterableIterator<[string, S]> {
    return this.#records.entries();
  }

  list(): RegistryListing<R> {
    const records = [...this.#records].sort(byId).map(([, { record }]) => record);
    return { epoch: this.epoch, revision: this.#revision, records };
  }

  origins(): ReadonlyMap<string, string> {
    return new Map([...this.#records].map(([id, { origin }]) => [id, origin]));
  }

  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent<R>> {
    if (this.#isClosed) return failedWatch(closedError());
    if (!Number.isSafeInteger(since) || since < 0 || since > this.#revision) {
      const message = `revision ${since} does not exist; the store is at revision ${this.#revision}`;
      return failedWatch(new StoreError('future_revision', message));
    }
    if (since > 0 && since < this.#compacted) {
      const message = `changes after revision ${since} are not available: the store is compacted up to revision ${this.#compacted}`;
      return failedWatch(new StoreError('compacted', message));
    }
    return this.#hub.subscribe(this.#past(since), signal);
  }

  /** The compaction revision after these changes are appended to the log. */
  compactedAfter(changes: readonly LoggedChange[]): number {
    const surplus = this.#log.length + changes.length - this.#keptChanges;
    const lastDropped = surplus <= 0 ? undefined : (this.#log[surplus - 1] ?? changes[surplus - 1 - this.#log.length]);
    return lastDropped?.revision ?? this.#compacted;
  }

  /** Makes changes visible in one step; every watcher receives one event. */
  advance(revision: number, changes: readonly VisibleChange<S>[]): void {
    const prevRevision = this.#revision;
    this.#compacted = this.compactedAfter(changes);
    this.#revision = revision;
    for (const { revision: at, id, stored } of changes) {
      this.#log.push({ revision: at, id });
      if (stored === null) this.#records.delete(id);
      else this.#records.set(id, stored);
    }
    const surplus = this.#log.length - this.#keptChanges;
    if (surplus > 0) this.#log.splice(0, surplus);
    this.#hub.publish({
      epoch: this.epoch,
      revision,
      prevRevision,
      upserts: changes.flatMap(({ stored }) => (stored === null ? [] : [stored.record])),
      deletes: changes.flatMap(({ stored, id }) => (stored === null ? [id] : [])),
    });
  }

  /** Replaces stored values whose records did not change; watchers are not notified. */
  relocate(records: Iterable<readonly [string, S]>): void {
    for (const [id, stored] of records) this.#records.set(id, stored);
  }

  close(): void {
    this.#isClosed = true;
    this.#hub.close();
  }

  /** The changes after `since` as one event: current records and removed ids. */
  #past(since: number): RegistryEvent<R> | null {
    if (since === this.#revision) return null;
    const named = since === 0 ? this.#records.keys() : this.#idsChangedAfter(since);
    const upserts: R[] = [];
    const deletes: string[] = [];
    for (const id of [...named].sort()) {
      const stored = this.#records.get(id);
      if (stored === undefined) deletes.push(id);
      else upserts.push(stored.record);
    }
    return { epoch: this.epoch, revision: this.#revision, prevRevision: since, upserts, deletes };
  }

  #idsChangedAfter(since: number): Set<string> {
    return new Set(this.#log.filter((change) => change.revision > since).map((change) => change.id));
  }
}

export function closedError(): StoreError {
  return new StoreError('closed', 'the store was closed');
}

function byId([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
