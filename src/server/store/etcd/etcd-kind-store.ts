import type { RecordKind, RegistryEvent, RegistryListing, StoreStamps } from '../../records/record-kind.ts';
import { closedError } from '../record-memory.ts';
import {
  type ApplyResult,
  type RegistryStore,
  type StoreChange,
  StoreError,
  type UpsertOptions,
  type UpsertResult,
  type WriteOptions,
} from '../store.ts';
import type { EtcdClient } from './etcd-client.ts';
import type { EtcdImport, EtcdImports } from './etcd-import.ts';
import { bytesOf, drop, type EtcdKeys, keyAt, put } from './etcd-keys.ts';
import {
  type EtcdWriter,
  type Plan,
  type PreparedChange,
  plan,
  prepared,
  WRITE_MS,
  type WriteOutcome,
} from './etcd-writer.ts';
import type { KindMirror } from './kind-mirror.ts';

/** etcd's defaults are 128 operations and 1.5 MiB per transaction. */
const MAX_OPERATIONS = 120;
const MAX_BYTES = 1024 * 1024;
/** Minimum number of attempts, however long one takes. */
const MIN_TRIES = 8;
/** Deadline for a written change to become visible in the mirror. */
const VISIBLE_MS = 5_000;
/** Deadline for the mirror to reach a revision that another registry has shown. */
const CATCH_UP_MS = 5_000;

export interface EtcdKindStoreOptions<R extends StoreStamps> {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
  readonly mirror: KindMirror<R>;
  readonly writer: EtcdWriter;
  readonly imports: EtcdImports;
  /** Why the mirror may be out of date, or null. */
  readonly problem: () => string | null;
  readonly now: () => number;
  readonly signal: AbortSignal;
}

/** The records of one kind in etcd. Reads are served from this process's mirror; etcd checks the conditions of every write. */
export class EtcdKindStore<R extends StoreStamps> implements RegistryStore<R> {
  readonly kind: RecordKind<R>;
  readonly #options: EtcdKindStoreOptions<R>;
  readonly #mirror: KindMirror<R>;

  constructor(options: EtcdKindStoreOptions<R>) {
    this.kind = options.mirror.kind;
    this.#options = options;
    this.#mirror = options.mirror;
  }

  async epoch(): Promise<string> {
    this.#ensureOpen();
    return this.#mirror.memory.epoch;
  }

  async revision(): Promise<number> {
    this.#ensureOpen();
    return this.#mirror.memory.revision;
  }

  async list(): Promise<RegistryListing<R>> {
    this.#ensureCurrent();
    return this.#mirror.memory.list();
  }

  async get(id: string): Promise<R | null> {
    this.#ensureCurrent();
    return this.#mirror.memory.get(id)?.record ?? null;
  }

  async upsert(record: R, options: UpsertOptions = {}): Promise<UpsertResult<R>> {
    const { revision, records, changed } = await this.apply([{ upsert: record, ...options }]);
    return { revision, record: records[0] ?? record, changed: changed > 0 };
  }

  async remove(id: string, options: WriteOptions = {}): Promise<number> {
    return (await this.apply([{ remove: id, ...options }])).revision;
  }

  async apply(changes: readonly StoreChange<R>[]): Promise<ApplyResult<R>> {
    this.#ensureCurrent();
    const ready = await prepared(this.#mirror, changes);
    const isLarge =
      ready.length > MAX_OPERATIONS || ready.reduce((sum, { content }) => sum + content.length, 0) > MAX_BYTES;
    const staged = isLarge && ready.length > 1 ? this.#options.imports.begin(this.#mirror) : null;
    try {
      return await this.#applied(ready, staged);
    } finally {
      await staged?.end();
    }
  }

  /** Plans and writes until no concurrent change conflicts. */
  async #applied(changes: readonly PreparedChange<R>[], staged: EtcdImport<R> | null): Promise<ApplyResult<R>> {
    const updatedAtMs = this.#options.now();
    const endsAt = performance.now() + WRITE_MS;
    for (let tries = 1; ; tries++) {
      const planned = plan(this.#mirror, changes, updatedAtMs);
      const outcome = staged === null ? await this.#write(changes, planned) : await staged.write(planned);
      if ('done' in outcome) return this.#result(planned, outcome.done);
      await this.#caughtUp(outcome.head);
      if (performance.now() > endsAt && tries >= MIN_TRIES) {
        throw new StoreError('not_stored', 'nothing was changed: too many concurrent changes; try again');
      }
    }
  }

  async origins(): Promise<ReadonlyMap<string, string>> {
    this.#ensureCurrent();
    return this.#mirror.memory.origins();
  }

  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent<R>> {
    const { memory } = this.#mirror;
    if (!Number.isSafeInteger(since) || since <= memory.revision) return memory.watch(since, signal);
    return this.#watchLater(since, signal);
  }

  async upToDate(): Promise<void> {
    this.#ensureCurrent();
    const { client, keys } = this.#options;
    const request = { key: keys.head(this.kind.name), keysOnly: true };
    const { kvs } = await client
      .ask(({ kv }, options) => kv.range(request, options), { deadlineMs: CATCH_UP_MS, signal: this.#options.signal })
      .catch((error: unknown) => {
        this.#ensureOpen();
        throw new StoreError('not_current', 'the current revision cannot be read from etcd', error);
      });
    await this.#caughtUp(kvs[0]?.modRevision ?? 0n);
  }

  currencyProblem(): string | null {
    return this.#options.problem();
  }

  /** Records stay in etcd; the database that opened this store closes the mirror's watch. */
  async close(): Promise<void> {
    this.#mirror.close();
  }

  /** Another registry may be ahead of this one: etcd knows whether the revision exists. */
  async *#watchLater(since: number, signal: AbortSignal): AsyncGenerator<RegistryEvent<R>> {
    await this.upToDate();
    yield* this.#mirror.memory.watch(since, signal);
  }

  /** etcd checks all conditions, even if nothing is written: the mirror may be behind. */
  async #write(changes: readonly PreparedChange<R>[], planned: Plan<R>): Promise<WriteOutcome> {
    const { keys, writer } = this.#options;
    const { space } = this.#mirror;
    const { name } = this.kind;
    const written = planned.changes.filter(({ text }) => text !== undefined);
    const outcome = await writer.write(this.#mirror, {
      conditions: [
        keyAt(keys.space(name), space.revision),
        ...changes.map(({ id }) => keyAt(keys.record(name, space.name, id), this.#mirror.keyRevision(id))),
      ],
      operations:
        planned.refusal !== null
          ? []
          : written.map(({ id, text }) => {
              const key = keys.record(name, space.name, id);
              return text === null ? drop(key) : put(key, bytesOf(text ?? ''));
            }),
    });
    if ('done' in outcome && planned.refusal !== null) throw planned.refusal;
    return outcome;
  }

  async #result({ changes }: Plan<R>, done: bigint): Promise<ApplyResult<R>> {
    const mod_revision = this.#mirror.revisionOf(done);
    const visible = await this.#mirror.reached(done, VISIBLE_MS, this.#options.signal);
    this.#ensureOpen();
    if (!visible) {
      throw new StoreError(
        'not_visible',
        `the change is stored at revision ${mod_revision}, but not yet visible in this registry`,
      );
    }
    const changed = changes.filter(({ text }) => text !== undefined).length;
    return {
      revision: changed > 0 ? mod_revision : this.#mirror.memory.revision,
      records: changes.map(({ record, text }) =>
        record === null || text === undefined ? record : Object.freeze({ ...record, mod_revision }),
      ),
      changed,
    };
  }

  async #caughtUp(head: bigint): Promise<void> {
    const reached = await this.#mirror.reached(head, CATCH_UP_MS, this.#options.signal);
    this.#ensureOpen();
    if (reached) return;
    throw new StoreError('not_current', `this registry has not received revision ${this.#mirror.revisionOf(head)} yet`);
  }

  #ensureOpen(): void {
    if (this.#options.signal.aborted || this.#mirror.memory.isClosed) throw closedError();
  }

  #ensureCurrent(): void {
    this.#ensureOpen();
    const problem = this.#options.problem();
    if (problem !== null) throw new StoreError('not_current', `this registry may be out of date: ${problem}`);
  }
}
