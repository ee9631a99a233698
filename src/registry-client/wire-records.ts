import { TimeSlice } from '../base/timing.ts';
import {
  idOf,
  type RecordIssue,
  type RecordKind,
  type RegistryEvent,
  type StoreStamps,
} from '../server/records/record-kind.ts';

export type OnInvalidRecord = (id: string, issue: RecordIssue) => void;

/** A record as it travels, of any kind. */
interface WireRecord {
  readonly modRevision: bigint;
}

interface WireEvent<Wire> {
  readonly epoch: string;
  readonly revision: bigint;
  readonly prevRevision: bigint;
  readonly upserts: readonly string[];
  readonly deletes: readonly string[];
  readonly records: readonly Wire[];
}

export interface WireKind<Wire, R extends StoreStamps> {
  readonly kind: RecordKind<R>;
  readonly idOf: (wire: Wire) => string;
  /** In the shape that the kind parses. */
  readonly input: (wire: Wire) => unknown;
}

/**
 * Turns what a registry sent into records. One that this node cannot understand is left out and reported: it fails
 * that server or profile alone, and never leaves an older version of it in force.
 */
export class WireRecords<Wire extends WireRecord, R extends StoreStamps> {
  readonly #wire: WireKind<Wire, R>;
  readonly #onInvalid: OnInvalidRecord;
  #epoch = '';
  /** By id, to check a record once and not at every list. Holds what the node's snapshot holds as well. */
  #known = new Map<string, R>();

  constructor(wire: WireKind<Wire, R>, onInvalid: OnInvalidRecord) {
    this.#wire = wire;
    this.#onInvalid = onInvalid;
  }

  async readAll(epoch: string, wire: readonly Wire[], signal: AbortSignal): Promise<R[]> {
    if (epoch !== this.#epoch) this.#known.clear();
    this.#epoch = epoch;
    const records = await this.#read(wire, signal, (message) => this.#reusable(epoch, message) ?? this.#parse(message));
    this.#known = new Map(records.map((record) => [this.#idOf(record), record]));
    return records;
  }

  async readEvent(event: WireEvent<Wire>, signal: AbortSignal): Promise<RegistryEvent<R>> {
    const upserts = await this.#read(event.records, signal, (message) => this.#parse(message));
    const understood = new Set(upserts.map((record) => this.#idOf(record)));
    const deletes = [...event.deletes, ...event.upserts.filter((id) => !understood.has(id))];
    for (const id of deletes) this.#known.delete(id);
    for (const record of upserts) this.#known.set(this.#idOf(record), record);
    return {
      epoch: event.epoch,
      revision: Number(event.revision),
      prevRevision: Number(event.prevRevision),
      upserts,
      deletes,
    };
  }

  #idOf(record: R): string {
    return idOf(this.#wire.kind, record);
  }

  /** A registry may have thousands of records, and an import changes as many at once. */
  async #read(wire: readonly Wire[], signal: AbortSignal, read: (message: Wire) => R | null): Promise<R[]> {
    const slice = new TimeSlice();
    const records: R[] = [];
    for (const message of wire) {
      const record = read(message);
      if (record !== null) records.push(record);
      if (!slice.isOver) continue;
      await slice.yield();
      signal.throwIfAborted();
    }
    return records;
  }

  /** Within one epoch a record with the same revision is the same record. */
  #reusable(epoch: string, wire: Wire): R | null {
    const known = this.#known.get(this.#wire.idOf(wire));
    const same = epoch !== '' && wire.modRevision > 0n && known?.mod_revision === Number(wire.modRevision);
    return same ? (known ?? null) : null;
  }

  #parse(wire: Wire): R | null {
    const parsed = this.#wire.kind.parse(this.#wire.input(wire), { strict: false });
    if (parsed.ok) return parsed.record;
    const [issue = { path: '', message: 'is not valid' }] = parsed.issues;
    this.#onInvalid(this.#wire.idOf(wire), issue);
    return null;
  }
}
