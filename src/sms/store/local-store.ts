import type { McpServerRecord } from '../../protocol/record.ts';
import { sameContent } from '../../protocol/record-compare.ts';
import type { RegistryEvent, RegistryListing } from '../../protocol/record-events.ts';
import {
  DEFAULT_ORIGIN,
  type RegistryStore,
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
}

/** One change as it must reach the disk: all of it or nothing. `server` is null for a removal. */
export interface DurableChange extends LoggedChange {
  readonly server: StoredServer | null;
  readonly compacted: number;
}

export interface Durability {
  /** Durable when it returns; throws and leaves nothing behind otherwise. */
  write(change: DurableChange): void;
  close(): void;
}

export interface LocalStoreOptions {
  readonly state: LocalState;
  readonly durability: Durability;
  readonly keptChanges: number;
  readonly watcherQueue: number;
  readonly now: () => number;
}

/**
 * A store that one process owns: it answers from memory, and a change is made durable before it is made visible. All
 * of a method happens in one synchronous step, which is what keeps a watch free of holes.
 */
export class LocalStore implements RegistryStore {
  readonly #options: LocalStoreOptions;
  readonly #servers: Map<string, StoredServer>;
  readonly #log: LoggedChange[];
  readonly #hub: WatchHub;
  #revision: number;
  #compacted: number;
  #closed = false;

  constructor(options: LocalStoreOptions) {
    this.#options = options;
    this.#servers = new Map(options.state.servers);
    this.#log = [...options.state.log];
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
    const { server_id: serverId } = record;
    const current = this.#servers.get(serverId)?.record ?? null;
    checkCondition(serverId, current, options);
    if (current !== null && sameContent(current, record)) {
      return { revision: this.#revision, record: current, changed: false };
    }
    const revision = this.#revision + 1;
    const stored = Object.freeze({ ...record, updated_at_ms: this.#options.now(), mod_revision: revision });
    this.#commit(serverId, { record: stored, origin: options.origin ?? DEFAULT_ORIGIN });
    return { revision, record: stored, changed: true };
  }

  async remove(serverId: string, options: WriteOptions = {}): Promise<number> {
    this.#ensureOpen();
    const current = this.#servers.get(serverId)?.record ?? null;
    if (current === null) throw new StoreError('not_found', `there is no server "${serverId}"`);
    checkCondition(serverId, current, options);
    this.#commit(serverId, null);
    return this.#revision;
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

  #commit(serverId: string, server: StoredServer | null): void {
    const prevRevision = this.#revision;
    const revision = prevRevision + 1;
    const surplus = this.#log.length + 1 - this.#options.keptChanges;
    const compacted = surplus > 0 ? (this.#log[surplus - 1]?.revision ?? revision) : this.#compacted;
    this.#options.durability.write({ revision, serverId, server, compacted });

    this.#revision = revision;
    this.#compacted = compacted;
    this.#log.push({ revision, serverId });
    if (surplus > 0) this.#log.splice(0, surplus);
    if (server === null) this.#servers.delete(serverId);
    else this.#servers.set(serverId, server);
    this.#hub.publish({
      epoch: this.#options.state.epoch,
      revision,
      prevRevision,
      upserts: server === null ? [] : [server.record],
      deletes: server === null ? [serverId] : [],
    });
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
  if (current === null) throw new StoreError('not_found', `there is no server "${serverId}"`);
  const message = `server "${serverId}" is at revision ${found}, not ${wanted}: somebody changed it`;
  throw new StoreError('revision_mismatch', message);
}

function closedError(): StoreError {
  return new StoreError('closed', 'the store was closed');
}

function byServerId(a: McpServerRecord, b: McpServerRecord): number {
  return a.server_id < b.server_id ? -1 : a.server_id > b.server_id ? 1 : 0;
}
