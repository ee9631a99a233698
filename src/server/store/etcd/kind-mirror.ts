import { isDeepStrictEqual } from 'node:util';
import { TimeSlice } from '../../../base/timing.ts';
import type { KeyValue } from '../../../generated/proto/etcdserverpb/key_value_pb.ts';
import { leftOut, type RecordKind, readRecord, type StoreStamps } from '../../records/record-kind.ts';
import { type MemoryBounds, RecordMemory, type Stored, type VisibleChange } from '../record-memory.ts';
import { FIRST_SPACE, textOf } from './etcd-keys.ts';

/** Key space of a kind's records; `revision` is that of the key that names it, 0 if there is none. */
export interface Space {
  readonly name: string;
  readonly revision: bigint;
}

export const firstSpace: Space = Object.freeze({ name: FIRST_SPACE, revision: 0n });

/** All records of a kind at one revision of etcd. */
export interface KindListing {
  /** The mod revision of its head; 0: no change yet. */
  readonly head: bigint;
  readonly write: string;
  readonly space: Space;
  readonly records: readonly { readonly id: string; readonly kv: KeyValue }[];
}

/** One change of a kind from the watch. */
export interface KindStep {
  readonly head: bigint;
  readonly write: string;
  /** A null value: the key was removed. */
  readonly records: readonly { readonly id: string; readonly value: Uint8Array | null }[];
}

/** Number of recent writes whose outcome can be looked up after a lost response. */
const REMEMBERED_WRITES = 10_000;

export interface KindMirrorOptions<R extends StoreStamps> {
  readonly kind: RecordKind<R>;
  readonly epoch: string;
  /** Added to etcd's revisions, so that a migrated registry continues above its earlier revisions. */
  readonly base: number;
  readonly bounds: MemoryBounds;
  /** For messages. */
  readonly place: string;
  readonly warn: (problem: string) => void;
}

/** The mirror of one kind of record in etcd. */
export class KindMirror<R extends StoreStamps> {
  readonly kind: RecordKind<R>;
  readonly memory: RecordMemory<R, EtcdStored<R>>;
  readonly #options: KindMirrorOptions<R>;
  /** Keys of unreadable records, which can be replaced and removed. */
  readonly #damaged = new Map<string, bigint>();
  readonly #writes = new Map<string, bigint>();
  readonly #waiting = new Set<() => void>();
  #head = 0n;
  #space = firstSpace;

  constructor(options: KindMirrorOptions<R>, listing: KindListing) {
    this.kind = options.kind;
    this.#options = options;
    const revision = this.revisionOf(listing.head);
    const records = new Map<string, EtcdStored<R>>();
    for (const { id, kv } of listing.records) {
      const read = this.#read(id, kv.value, kv.modRevision, listing.space);
      if ('stored' in read) records.set(id, read.stored);
      else this.#leaveOut(id, kv.modRevision, read.problem);
    }
    this.memory = new RecordMemory(options.epoch, { revision, compacted: revision, records, log: [] }, options.bounds);
    this.#reach(listing);
    this.#space = listing.space;
  }

  get head(): bigint {
    return this.#head;
  }

  get space(): Space {
    return this.#space;
  }

  revisionOf(modRevision: bigint): number {
    return this.#options.base + Number(modRevision);
  }

  /** The key revision that a write to this record must compare with; 0: no key. */
  keyRevision(id: string): bigint {
    return this.memory.get(id)?.keyRevision ?? this.#damaged.get(id) ?? 0n;
  }

  isDamaged(id: string): boolean {
    return this.#damaged.has(id);
  }

  /** The revision of a write; undefined: not seen. */
  revisionOfWrite(write: string): bigint | undefined {
    return this.#writes.get(write);
  }

  /** Applies one change. */
  step({ head, write, records }: KindStep): void {
    if (head <= this.#head) return;
    const revision = this.revisionOf(head);
    const changes: VisibleChange<EtcdStored<R>>[] = [];
    for (const { id, value } of records) {
      const wasDamaged = this.#damaged.delete(id);
      const read = value === null ? null : this.#read(id, value, head, this.#space);
      if (read !== null && 'problem' in read) this.#leaveOut(id, head, read.problem);
      const stored = read !== null && 'stored' in read ? read.stored : null;
      // Watchers never saw the unreadable record.
      if (stored === null && wasDamaged && this.memory.get(id) === undefined) continue;
      changes.push({ revision, id, stored });
    }
    this.#reach({ head, write });
    this.memory.advance(revision, changes);
    this.#tell();
  }

  /** Applies a full listing as one step: after an import, or if the steps were compacted. */
  async replace(listing: KindListing): Promise<void> {
    const slice = new TimeSlice();
    const changes: VisibleChange<EtcdStored<R>>[] = [];
    const revision = this.revisionOf(listing.head);
    const there = new Set<string>();
    const kept: [string, EtcdStored<R>][] = [];
    this.#damaged.clear();
    for (const { id, kv } of listing.records) {
      if (slice.isOver) await slice.yield();
      const read = this.#read(id, kv.value, kv.modRevision, listing.space);
      if ('problem' in read) {
        this.#leaveOut(id, kv.modRevision, read.problem);
        continue;
      }
      there.add(id);
      const before = this.memory.get(id);
      if (before === undefined || !isDeepStrictEqual(before.record, read.stored.record)) {
        changes.push({ revision, id, stored: read.stored });
      } else kept.push([id, read.stored]);
    }
    for (const [id] of this.memory.entries()) if (!there.has(id)) changes.push({ revision, id, stored: null });
    this.memory.relocate(kept);
    this.#space = listing.space;
    this.#reach(listing);
    if (revision > this.memory.revision) this.memory.advance(revision, changes);
    this.#tell();
  }

  /** Waits until the mirror has applied the change of that head; false: deadline passed. */
  async reached(head: bigint, deadlineMs: number, signal: AbortSignal): Promise<boolean> {
    const endsAt = performance.now() + deadlineMs;
    while (this.#head < head) {
      const leftMs = endsAt - performance.now();
      if (leftMs <= 0 || signal.aborted) return false;
      await new Promise<void>((resolve) => {
        const settle = () => {
          this.#waiting.delete(settle);
          signal.removeEventListener('abort', settle);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(settle, leftMs);
        this.#waiting.add(settle);
        signal.addEventListener('abort', settle);
      });
    }
    return true;
  }

  close(): void {
    this.memory.close();
    this.#tell();
  }

  #read(id: string, value: Uint8Array, keyRevision: bigint, space: Space): ReadStored<R> {
    // Keys written to a staged space became visible when the space was named.
    const visibleAt = keyRevision > space.revision ? keyRevision : space.revision;
    return readStored(this.kind, id, value, keyRevision, this.revisionOf(visibleAt));
  }

  #leaveOut(id: string, keyRevision: bigint, problem: string): void {
    this.#damaged.set(id, keyRevision);
    this.#options.warn(leftOut(this.#options.place, this.kind, id, problem));
  }

  #reach({ head, write }: Pick<KindListing, 'head' | 'write'>): void {
    this.#head = head;
    this.#writes.set(write, head);
    const [oldest] = this.#writes.keys();
    if (this.#writes.size > REMEMBERED_WRITES && oldest !== undefined) this.#writes.delete(oldest);
  }

  #tell(): void {
    for (const settle of [...this.#waiting]) settle();
  }
}

/** A record in etcd. */
export interface EtcdStored<R> extends Stored<R> {
  /** The mod revision of its key, which a write compares with. An import rewrites the keys of unchanged records. */
  readonly keyRevision: bigint;
}

export interface RecordText {
  /** The record as JSON without the fields that the store writes. */
  readonly content: string;
  readonly origin: string;
  readonly updatedAtMs: number;
  /** Its revision, if an import only copied it; null: the revision of the write. */
  readonly at: number | null;
}

export function recordText({ content, origin, updatedAtMs, at }: RecordText): string {
  return `{"origin":${JSON.stringify(origin)},"at":${at},"updated_at_ms":${updatedAtMs},"record":${content}}`;
}

export type ReadStored<R> = { readonly stored: EtcdStored<R> } | { readonly problem: string };

/** `written` is the revision of the kind at which the key's content became visible. */
export function readStored<R extends StoreStamps>(
  kind: RecordKind<R>,
  id: string,
  value: Uint8Array,
  keyRevision: bigint,
  written: number,
): ReadStored<R> {
  let input: unknown;
  try {
    input = JSON.parse(textOf(value));
  } catch {
    return { problem: 'the value is not JSON' };
  }
  if (!isEnvelope(input)) return { problem: 'the value was not written by a registry' };
  const { record, updated_at_ms, at, origin } = input;
  const read = readRecord(kind, id, { ...record, updated_at_ms, mod_revision: at ?? written });
  return 'problem' in read ? read : { stored: { record: read.record, origin, keyRevision } };
}

interface Envelope {
  readonly origin: string;
  readonly at: number | null;
  readonly updated_at_ms: number;
  readonly record: object;
}

function isEnvelope(input: unknown): input is Envelope {
  if (typeof input !== 'object' || input === null) return false;
  const { origin, at, updated_at_ms, record } = input as Partial<Record<keyof Envelope, unknown>>;
  return (
    typeof origin === 'string' &&
    (at === null || Number.isSafeInteger(at)) &&
    Number.isSafeInteger(updated_at_ms) &&
    typeof record === 'object' &&
    record !== null
  );
}
