import { randomUUID } from 'node:crypto';
import { TimeSlice } from '../../base/timing.ts';
import {
  contentKey,
  idOf,
  type RecordKind,
  type RegistryEvent,
  type RegistryListing,
  type StoreStamps,
  sameContent,
} from '../records/record-kind.ts';
import { type McpServerRecord, serverKind } from '../records/server.ts';
import { closedError, type LoggedChange, type MemoryState, RecordMemory, type Stored } from './record-memory.ts';
import {
  type ApplyResult,
  checkCondition,
  DEFAULT_KEPT_CHANGES,
  DEFAULT_ORIGIN,
  DEFAULT_WATCHER_QUEUE,
  notFound,
  type RegistryStore,
  type StoreChange,
  type UpsertOptions,
  type UpsertResult,
  type WriteOptions,
} from './store.ts';

export interface LocalState<R> extends MemoryState<Stored<R>> {
  readonly epoch: string;
  /** Ids of stored records that cannot be read: they can be replaced and removed. */
  readonly damaged: readonly string[];
}

/** One change as it is written to disk. */
export interface DurableChange<R extends StoreStamps = StoreStamps> extends LoggedChange {
  /** Null for a removal. `content` is the record as JSON, without the fields that the store writes. */
  readonly stored: (Stored<R> & { readonly content: string }) | null;
}

/** The changes of one call: all of them reach the disk, or none. */
export interface DurableStep {
  readonly changes: readonly DurableChange[];
  readonly revision: number;
  readonly compacted: number;
}

export interface Durability {
  /** Durable when it returns; otherwise throws and changes nothing. */
  write(step: DurableStep): void;
  close(): void;
}

/** A prepared change: its content as text, and whether that equals the content of `current`. */
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
 * A store that one process owns. Reads are served from memory.
 *
 * Invariants
 * - A change is durable before it is visible.
 * - Every read and every commit is one synchronous step, so that no read sees a part of a call's changes.
 * - The revision increases by one for each change of a call; watchers receive one event at the last revision.
 *
 * Not handled: several processes with one store (see etcd/).
 */
export class LocalStore<R extends StoreStamps> implements RegistryStore<R> {
  readonly kind: RecordKind<R>;
  readonly #durability: Durability;
  readonly #now: () => number;
  readonly #memory: RecordMemory<R>;
  readonly #damaged: Set<string>;
  #closed = false;

  constructor(options: LocalStoreOptions<R>) {
    this.kind = options.kind;
    this.#durability = options.durability;
    this.#now = options.now;
    this.#memory = new RecordMemory(options.state.epoch, options.state, options);
    this.#damaged = new Set(options.state.damaged);
  }

  async epoch(): Promise<string> {
    this.#ensureOpen();
    return this.#memory.epoch;
  }

  async revision(): Promise<number> {
    this.#ensureOpen();
    return this.#memory.revision;
  }

  async list(): Promise<RegistryListing<R>> {
    this.#ensureOpen();
    return this.#memory.list();
  }

  async get(id: string): Promise<R | null> {
    this.#ensureOpen();
    return this.#memory.get(id)?.record ?? null;
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
    const slice = new TimeSlice();
    const staged: StagedChange<R>[] = [];
    for (const change of changes) {
      staged.push(this.#stage(change));
      if (slice.isOver) await slice.yield();
    }
    this.#ensureOpen();
    return this.#commit(staged);
  }

  async origins(): Promise<ReadonlyMap<string, string>> {
    this.#ensureOpen();
    return this.#memory.origins();
  }

  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent<R>> {
    return this.#memory.watch(since, signal);
  }

  /** Always up to date: this process is the only writer. */
  async upToDate(): Promise<void> {
    this.#ensureOpen();
  }

  currencyProblem(): null {
    return null;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#memory.close();
    this.#durability.close();
  }

  /** Does the expensive part of a change before the synchronous commit. */
  #stage(change: StoreChange<R>): StagedChange<R> {
    if ('remove' in change) return { change, content: '', current: null, same: false };
    const content = contentKey(change.upsert);
    const current = this.#memory.get(idOf(this.kind, change.upsert))?.record ?? null;
    return { change, content, current, same: current !== null && sameContent(current, change.upsert) };
  }

  #commit(staged: readonly StagedChange<R>[]): ApplyResult<R> {
    const { changes, records } = this.#changesOf(staged);
    const last = changes.at(-1);
    if (last === undefined) return { revision: this.#memory.revision, records, changed: 0 };
    const { revision } = last;
    this.#durability.write({ changes, revision, compacted: this.#memory.compactedAfter(changes) });
    for (const { id } of changes) this.#damaged.delete(id);
    this.#memory.advance(revision, changes.map(visible));
    return { revision, records, changed: changes.length };
  }

  /** The changes to write and the records after them. @throws StoreError if a condition does not hold */
  #changesOf(staged: readonly StagedChange<R>[]): { changes: DurableChange<R>[]; records: (R | null)[] } {
    const updatedAt = this.#now();
    const changes: DurableChange<R>[] = [];
    const records: (R | null)[] = [];
    const named = new Set<string>();
    for (const { change, content, ...compared } of staged) {
      const id = 'remove' in change ? change.remove : idOf(this.kind, change.upsert);
      if (named.size === named.add(id).size) throw new TypeError(`"${id}" is changed twice in one batch`);
      const current = this.#memory.get(id)?.record ?? null;
      checkCondition(this.kind, id, current, change);
      const revision = this.#memory.revision + changes.length + 1;
      if ('remove' in change) {
        if (current === null && !this.#damaged.has(id)) throw notFound(this.kind.name, id);
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

  #ensureOpen(): void {
    if (this.#closed) throw closedError();
  }
}

/** The change without its text, which is not needed once it is on disk. */
function visible<R extends StoreStamps>({ revision, id, stored }: DurableChange<R>) {
  return { revision, id, stored: stored === null ? null : { record: stored.record, origin: stored.origin } };
}

export interface StoreOptions {
  /** Changes retained for watchers that reconnect. @default 10,000 */
  readonly keptChanges?: number;
  /** Events buffered for one watcher before it is disconnected. @default 1,024 */
  readonly watcherQueue?: number;
  /** @default Date.now */
  readonly now?: () => number;
}

/** A store that ends with the process: for tests, and for records that are read from a directory at every start. */
export function createMemoryStore(options: StoreOptions = {}): RegistryStore<McpServerRecord> {
  return createMemoryStoreOf(serverKind, options);
}

export function createMemoryStoreOf<R extends StoreStamps>(
  kind: RecordKind<R>,
  options: StoreOptions = {},
): RegistryStore<R> {
  return new LocalStore({
    kind,
    state: { epoch: randomUUID(), revision: 0, compacted: 0, records: new Map(), log: [], damaged: [] },
    durability: { write() {}, close() {} },
    ...localOptions(options),
  });
}

export function localOptions(options: StoreOptions) {
  return {
    keptChanges: options.keptChanges ?? DEFAULT_KEPT_CHANGES,
    watcherQueue: options.watcherQueue ?? DEFAULT_WATCHER_QUEUE,
    now: options.now ?? Date.now,
  };
}
