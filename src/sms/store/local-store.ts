import { Turns } from '../../base/turns.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import { contentKey } from '../../protocol/record-compare.ts';
import type { RegistryEvent, RegistryListing } from '../../protocol/record-events.ts';
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
export interface StoredServer {
  readonly record: McpServerRecord;
  readonly origin: string;
}

export interface LoggedChange {
  readonly revision: number;
  readonly serverId: string;
}

export interface LocalState {
  readonly epoch: string;
  readonly revision: number;
  /** Changes up to here are no longer in the log. */
  readonly compacted: number;
  readonly servers: ReadonlyMap<string, StoredServer>;
  /** Oldest first. */
  readonly log: readonly LoggedChange[];
  /** Servers whose record is there and cannot be read: they can be written anew and removed. */
  readonly damaged: readonly string[];
}

/** One change as it must reach the disk. */
export interface DurableChange extends LoggedChange {
  /** Null for a removal. `content` is the record as JSON, without what the store itself writes into it. */
  readonly server: (StoredServer & { readonly content: string }) | null;
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
interface StagedChange {
  readonly change: StoreChange;
  readonly content: string;
  readonly current: McpServerRecord | null;
  readonly same: boolean;
}

export interface LocalStoreOptions {
  readonly state: LocalState;
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
export class LocalStore implements RegistryStore {
  readonly #options: LocalStoreOptions;
  readonly #servers: Map<string, StoredServer>;
  readonly #log: LoggedChange[];
  readonly #damaged: Set<string>;
  readonly #hub: WatchHub;
  #revision: number;
  #compacted: number;
  #closed = false;

  constructor(options: LocalStoreOptions) {
    this.#options = options;
    this.#servers = new Map(options.state.servers);
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

  async list(): Promise<RegistryListing> {
    this.#ensureOpen();
    const servers = [...this.#servers.values()].map((server) => server.record).sort(byServerId);
    return { epoch: this.#options.state.epoch, revision: this.#revision, servers };
  }

  async get(serverId: string): Promise<McpServerRecord | null> {
    this.#ensureOpen();
    return this.#servers.get(serverId)?.record ?? null;
  }

  async upsert(record: McpServerRecord, options: UpsertOptions = {}): Promise<UpsertResult> {
    this.#ensureOpen();
    const { revision, records, changed } = this.#commit([this.#stage({ upsert: record, ...options })]);
    return { revision, record: records[0] ?? record, changed: changed > 0 };
  }

  async remove(serverId: string, options: WriteOptions = {}): Promise<number> {
    this.#ensureOpen();
    return this.#commit([this.#stage({ remove: serverId, ...options })]).revision;
  }

  async apply(changes: readonly StoreChange[]): Promise<ApplyResult> {
    this.#ensureOpen();
    const turns = new Turns();
    const staged: StagedChange[] = [];
    for (const change of changes) {
      staged.push(this.#stage(change));
      if (turns.over) await turns.next();
    }
    this.#ensureOpen();
    return this.#commit(staged);
  }

  async origins(): Promise<ReadonlyMap<string, string>> {
    this.#ensureOpen();
    return new Map([...this.#servers].map(([serverId, server]) => [serverId, server.origin]));
  }

  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent> {
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
  #stage(change: StoreChange): StagedChange {
    if ('remove' in change) return { change, content: '', current: null, same: false };
    const content = contentKey(change.upsert);
    const current = this.#servers.get(change.upsert.server_id)?.record ?? null;
    return { change, content, current, same: current !== null && contentKey(current) === content };
  }

  #commit(staged: readonly StagedChange[]): ApplyResult {
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
    for (const { serverId, server, ...change } of changes) {
      this.#log.push({ revision: change.revision, serverId });
      this.#damaged.delete(serverId);
      if (server === null) this.#servers.delete(serverId);
      else this.#servers.set(serverId, { record: server.record, origin: server.origin });
    }
    if (surplus > 0) this.#log.splice(0, surplus);
    this.#hub.publish({
      epoch: this.#options.state.epoch,
      revision,
      prevRevision,
      upserts: changes.flatMap(({ server }) => (server === null ? [] : [server.record])),
      deletes: changes.flatMap(({ server, serverId }) => (server === null ? [serverId] : [])),
    });
    return { revision, records, changed: changes.length };
  }

  /** What is to be written, and the records as they will be; throws where a condition does not hold. */
  #changesOf(staged: readonly StagedChange[]): { changes: DurableChange[]; records: (McpServerRecord | null)[] } {
    const updatedAt = this.#options.now();
    const changes: DurableChange[] = [];
    const records: (McpServerRecord | null)[] = [];
    const named = new Set<string>();
    for (const { change, content, ...compared } of staged) {
      const serverId = 'remove' in change ? change.remove : change.upsert.server_id;
      if (named.size === named.add(serverId).size) throw new TypeError(`"${serverId}" is changed twice at once`);
      const current = this.#servers.get(serverId)?.record ?? null;
      checkCondition(serverId, current, change);
      const revision = this.#revision + changes.length + 1;
      if ('remove' in change) {
        if (current === null && !this.#damaged.has(serverId)) throw notFound(serverId);
        changes.push({ revision, serverId, server: null });
        records.push(null);
        continue;
      }
      const same = current === compared.current ? compared.same : current !== null && contentKey(current) === content;
      if (same) {
        records.push(current);
        continue;
      }
      const record = Object.freeze({ ...change.upsert, updated_at_ms: updatedAt, mod_revision: revision });
      changes.push({ revision, serverId, server: { record, origin: change.origin ?? DEFAULT_ORIGIN, content } });
      records.push(record);
    }
    return { changes, records };
  }

  /** What changed after `since` as one event: the records as they are now, and the ids that are gone. */
  #past(since: number): RegistryEvent | null {
    if (since === this.#revision) return null;
    const named = since === 0 ? this.#servers.keys() : this.#idsChangedAfter(since);
    const upserts: McpServerRecord[] = [];
    const deletes: string[] = [];
    for (const serverId of [...named].sort()) {
      const server = this.#servers.get(serverId);
      if (server === undefined) deletes.push(serverId);
      else upserts.push(server.record);
    }
    return { epoch: this.#options.state.epoch, revision: this.#revision, prevRevision: since, upserts, deletes };
  }

  #idsChangedAfter(since: number): Set<string> {
    return new Set(this.#log.filter((change) => change.revision > since).map((change) => change.serverId));
  }

  #ensureOpen(): void {
    if (this.#closed) throw closedError();
  }
}

function checkCondition(serverId: string, current: McpServerRecord | null, options: WriteOptions): void {
  const wanted = options.ifModRevision;
  const found = current?.mod_revision ?? 0;
  if (wanted === undefined || wanted === found) return;
  if (wanted === 0) throw new StoreError('already_exists', `there is a server "${serverId}" already`);
  if (current === null) throw notFound(serverId);
  const message = `server "${serverId}" is at revision ${found}, not ${wanted}: somebody changed it`;
  throw new StoreError('revision_mismatch', message);
}

function notFound(serverId: string): StoreError {
  return new StoreError('not_found', `there is no server "${serverId}"`);
}

function closedError(): StoreError {
  return new StoreError('closed', 'the store was closed');
}

function byServerId(a: McpServerRecord, b: McpServerRecord): number {
  return a.server_id < b.server_id ? -1 : a.server_id > b.server_id ? 1 : 0;
}
