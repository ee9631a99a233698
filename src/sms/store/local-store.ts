import { Turns } from '../../base/turns.ts';
import { contentKey, sameContent } from '../../protocol/record-compare.ts';
import type { RegistryEvent, RegistryListing } from '../../protocol/record-events.ts';
import { idOf, type RecordKind, type StoreStamps } from '../../protocol/record-kind.ts';
import {
  type ApplyResult,
  DEFAULT_ORIGIN,
  type RegistryStore,
  type StoreChange,
  StoreError,
  type UpsertOptions,
  type UpsertResult,
  type WriteOptions,
} from './store.ts';
import { failedWatch, WatchHub } from './watch-hub.ts';

/** A record as a local backend holds it. */
export interface Stored<R> {
  readonly record: R;
  readonly origin: string;
}

export interface LoggedChange {
  readonly revision: number;
  readonly id: string;
}

export interface LocalState<R> {
  readonly epoch: string;
  readonly revision: number;
  /** Changes up to here are no longer in the log. */
  readonly compacted: number;
  readonly records: ReadonlyMap<string, Stored<R>>;
  /** Oldest first. */
  readonly log: readonly LoggedChange[];
  /** Ids whose record is there and cannot be read: they can be written anew and removed. */
  readonly damaged: readonly string[];
}

/** One change as it must reach the disk. */
export interface DurableChange<R extends StoreStamps = StoreStamps> extends LoggedChange {
  /** Null for a removal. `content` is the record as JSON, without what the store itself writes into it. */
  readonly stored: (Stored<R> & { readonly content: string }) | null;
}

/** What one call changes: all of it reaches the disk, or nothing. */
export interface DurableStep {
  readonly changes: readonly DurableChange[];
  readonly revision: number;
  readonly compacted: number;
}

export interface Durability {
  /** Durable when it returns; throws and leaves nothing behind otherwise. */
  write(step: DurableStep): void;
  close(): void;
}

/** A change whose costly part is done: what it says as text, and whether that is what `current` says. */
interface StagedChange<R> {
  readonly change: StoreChange<R>;
  readonly content: string;
  readonly current: R | null;
  readonly same: boolean;
}

export interface LocalStoreOptions<R extends StoreStamps> {
  readonly kind: RecordKind<R>;
  readonly state: LocalState<R>;
  readonly durability: Durability;
  readonly keptChanges: number;
  readonly watcherQueue: number;
  readonly now: () => number;
}

/**
 * A store that one process owns: it answers from memory, and a change is made durable before it is made visible. What
 * a call reads or changes it does in one synchronous step, which is what keeps a watch free of holes. Revisions go up by
 * one for each change of a call, and watchers see the last one only.
 */
export class LocalStore<R extends StoreStamps> implements RegistryStore<R> {
  readonly kind: RecordKind<R>;
  readonly #options: LocalStoreOptions<R>;
  readonly #records: Map<string, Stored<R>>;
  readonly #log: LoggedChange[];
  readonly #damaged: Set<string>;
  readonly #hub: WatchHub<RegistryEvent<R>>;
  #revision: number;
  #compacted: number;
  #closed = false;

  constructor(options: LocalStoreOptions<R>) {
    this.kind = options.kind;
    this.#options = options;
    this.#records = new Map(options.state.records);
    this.#log = [...options.state.log];
    this.#damaged = new Set(options.state.damaged);
    this.#revision = options.state.revision;
    this.#compacted = options.state.compacted;
    this.#hub = new WatchHub(options.watcherQueue);
  }

  async epoch(): Promise<string> {
    this.#ensureOpen();
    return this.#options.state.epoch;
  }

  async revision(): Promise<number> {
    this.#ensureOpen();
    return this.#revision;
  }

  async list(): Promise<RegistryListing<R>> {
    this.#ensureOpen();
    const records = [...this.#records].sort(byId).map(([, { record }]) => record);
    return { epoch: this.#options.state.epoch, revision: this.#revision, records };
  }

  async get(id: string): Promise<R | null> {
    this.#ensureOpen();
    return this.#records.get(id)?.record ?? null;
  }

  async upsert(record: R, options: UpsertOptions = {}): Promise<UpsertResult<R>> {
    this.#ensureOpen();
    const { revision, records, changed } = this.#commit([this.#stage({ upsert: record, ...options })]);
    return { revision, record: records[0] ?? record, changed: changed > 0 };
  }

  async remove(id: string, options: WriteOptions = {}): Promise<number> {
    this.#ensureOpen();
    return this.#commit([this.#stage({ remove: id, ...options })]).revision;
  }

  async apply(changes: readonly StoreChange<R>[]): Promise<ApplyResult<R>> {
    this.#ensureOpen();
    const turns = new Turns();
    const staged: StagedChange<R>[] = [];
    for (const change of changes) {
      staged.push(this.#stage(change));
      if (turns.over) await turns.next();
    }
    this.#ensureOpen();
    return this.#commit(staged);
  }

  async origins(): Promise<ReadonlyMap<string, string>> {
    this.#ensureOpen();
    return new Map([...this.#records].map(([id, { origin }]) => [id, origin]));
  }

  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent<R>> {
    if (this.#closed) return failedWatch(closedError());
    if (!Number.isSafeInteger(since) || since < 0 || since > this.#revision) {
      const message = `revision ${since} is not one of this store, which is at ${this.#revision}`;
      return failedWatch(new StoreError('future_revision', message));
    }
    if (since > 0 && since < this.#compacted) {
      const message = `changes up to revision ${this.#compacted} are no longer kept, so none after ${since} can be told`;
      return failedWatch(new StoreError('compacted', message));
    }
    return this.#hub.subscribe(this.#past(since), signal);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#hub.close();
    this.#options.durability.close();
  }

  /** What takes time, ahead of the step that must not take any. */
  #stage(change: StoreChange<R>): StagedChange<R> {
    if ('remove' in change) return { change, content: '', current: null, same: false };
    const content = contentKey(change.upsert);
    const current = this.#records.get(idOf(this.kind, change.upsert))?.record ?? null;
    return { change, content, current, same: current !== null && sameContent(current, change.upsert) };
  }

  #commit(staged: readonly StagedChange<R>[]): ApplyResult<R> {
    const prevRevision = this.#revision;
    const { changes, records } = this.#changesOf(staged);
    const last = changes.at(-1);
    if (last === undefined) return { revision: prevRevision, records, changed: 0 };
    const { revision } = last;
    const surplus = this.#log.length + changes.length - this.#options.keptChanges;
    const lastDropped = surplus <= 0 ? undefined : (this.#log[surplus - 1] ?? changes[surplus - 1 - this.#log.length]);
    const compacted = lastDropped?.revision ?? this.#compacted;
    this.#options.durability.write({ changes, revision, compacted });

    this.#revision = revision;
    this.#compacted = compacted;
    for (const { id, stored, ...change } of changes) {
      this.#log.push({ revision: change.revision, id });
      this.#damaged.delete(id);
      if (stored === null) this.#records.delete(id);
      else this.#records.set(id, { record: stored.record, origin: stored.origin });
    }
    if (surplus > 0) this.#log.splice(0, surplus);
    this.#hub.publish({
      epoch: this.#options.state.epoch,
      revision,
      prevRevision,
      upserts: changes.flatMap(({ stored }) => (stored === null ? [] : [stored.record])),
      deletes: changes.flatMap(({ stored, id }) => (stored === null ? [id] : [])),
    });
    return { revision, records, changed: changes.length };
  }

  /** What is to be written, and the records as they will be; throws where a condition does not hold. */
  #changesOf(staged: readonly StagedChange<R>[]): { changes: DurableChange<R>[]; records: (R | null)[] } {
    const updatedAt = this.#options.now();
    const changes: DurableChange<R>[] = [];
    const records: (R | null)[] = [];
    const named = new Set<string>();
    for (const { change, content, ...compared } of staged) {
      const id = 'remove' in change ? change.remove : idOf(this.kind, change.upsert);
      if (named.size === named.add(id).size) throw new TypeError(`"${id}" is changed twice at once`);
      const current = this.#records.get(id)?.record ?? null;
      this.#checkCondition(id, current, change);
      const revision = this.#revision + changes.length + 1;
      if ('remove' in change) {
        if (current === null && !this.#damaged.has(id)) throw this.#notFound(id);
        changes.push({ revision, id, stored: null });
        records.push(null);
        continue;
      }
      const same =
        current === compared.current ? compared.same : current !== null && sameContent(current, change.upsert);
      if (same) {
        records.push(current);
        continue;
      }
      const record = Object.freeze({ ...change.upsert, updated_at_ms: updatedAt, mod_revision: revision });
      changes.push({ revision, id, stored: { record, origin: change.origin ?? DEFAULT_ORIGIN, content } });
      records.push(record);
    }
    return { changes, records };
  }

  /** What changed after `since` as one event: the records as they are now, and the ids that are gone. */
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
    return { epoch: this.#options.state.epoch, revision: this.#revision, prevRevision: since, upserts, deletes };
  }

  #idsChangedAfter(since: number): Set<string> {
    return new Set(this.#log.filter((change) => change.revision > since).map((change) => change.id));
  }

  #checkCondition(id: string, current: R | null, options: WriteOptions): void {
    const wanted = options.ifModRevision;
    const found = current?.mod_revision ?? 0;
    if (wanted === undefined || wanted === found) return;
    const { name } = this.kind;
    if (wanted === 0) throw new StoreError('already_exists', `there is a ${name} "${id}" already`);
    if (current === null) throw this.#notFound(id);
    const message = `${name} "${id}" is at revision ${found}, not ${wanted}: somebody changed it`;
    throw new StoreError('revision_mismatch', message);
  }

  #notFound(id: string): StoreError {
    return new StoreError('not_found', `there is no ${this.kind.name} "${id}"`);
  }

  #ensureOpen(): void {
    if (this.#closed) throw closedError();
  }
}

function closedError(): StoreError {
  return new StoreError('closed', 'the store was closed');
}

function byId([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
