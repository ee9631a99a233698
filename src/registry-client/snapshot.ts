import {
  idOf,
  type RecordKind,
  type RegistryEvent,
  type RegistryListing,
  type StoreStamps,
  sameContent,
} from '../server/records/record-kind.ts';
import type { McpServerRecord } from '../server/records/server.ts';

/** All records of a kind at one revision. Immutable: a new snapshot replaces it. */
export interface RegistrySnapshot<R = McpServerRecord> {
  readonly epoch: string;
  readonly revision: number;
  /** By id, in no particular order. */
  readonly records: ReadonlyMap<string, R>;
}

/** A snapshot that an earlier run saved. */
export interface SavedSnapshot<R = McpServerRecord> {
  readonly snapshot: RegistrySnapshot<R>;
  /** When the source last confirmed it, by the wall clock. */
  readonly confirmedAtMs: number;
}

/** The changes of a swap, so that only dependent state is invalidated. */
export interface RegistryChange<R = McpServerRecord> {
  readonly snapshot: RegistrySnapshot<R>;
  /** Ids that are new or whose content changed. */
  readonly upserted: readonly string[];
  readonly deleted: readonly string[];
}

export function restoreSnapshot<R extends StoreStamps>(
  kind: RecordKind<R>,
  before: RegistrySnapshot<R> | null,
  listing: RegistryListing<R>,
): RegistryChange<R> {
  const records = LayeredMap.of(listing.records.map((record) => [idOf(kind, record), record]));
  const gone = before === null ? [] : [...before.records.keys()].filter((id) => !records.has(id));
  return describe(before, freeze(listing.epoch, listing.revision, records), records.keys(), gone);
}

/** Applies `event`, which must start where `before` ends. Compares only the records that the event names. */
export function applyEvent<R extends StoreStamps>(
  kind: RecordKind<R>,
  before: RegistrySnapshot<R>,
  event: RegistryEvent<R>,
): RegistryChange<R> {
  const gone = event.deletes.filter((id) => before.records.has(id));
  const upserts = event.upserts.map((record) => [idOf(kind, record), record] as const);
  const known = before.records instanceof LayeredMap ? before.records : LayeredMap.of(before.records);
  const records = known.with([...gone.map((id) => [id, null] as const), ...upserts]);
  const named = upserts.map(([id]) => id);
  return describe(before, freeze(event.epoch, event.revision, records), named, gone);
}

function describe<R extends StoreStamps>(
  before: RegistrySnapshot<R> | null,
  snapshot: RegistrySnapshot<R>,
  named: Iterable<string>,
  deleted: readonly string[],
): RegistryChange<R> {
  const upserted: string[] = [];
  for (const id of named) {
    const record = snapshot.records.get(id);
    const old = before?.records.get(id);
    if (record === undefined || (old !== undefined && sameContent(old, record))) continue;
    upserted.push(id);
  }
  return { snapshot, upserted, deleted };
}

function freeze<R>(epoch: string, revision: number, records: ReadonlyMap<string, R>): RegistrySnapshot<R> {
  return Object.freeze({ epoch, revision, records });
}

/** Changes in a layer before a new base is made. */
const MAX_LAYER = 128;

/**
 * An immutable map with cheap successors. Copying ten thousand records for every change takes milliseconds, so a new version
 * shares the large map and holds its few changes in a layer.
 */
export class LayeredMap<V extends object> implements ReadonlyMap<string, V> {
  readonly #base: ReadonlyMap<string, V>;
  /** Differences from the base; null is a deletion. */
  readonly #layer: ReadonlyMap<string, V | null>;
  readonly size: number;

  private constructor(base: ReadonlyMap<string, V>, layer: ReadonlyMap<string, V | null>, size: number) {
    this.#base = base;
    this.#layer = layer;
    this.size = size;
  }

  static of<V extends object>(entries: Iterable<readonly [string, V]>): LayeredMap<V> {
    const base = new Map(entries);
    return new LayeredMap(base, new Map(), base.size);
  }

  /** A map with these changes on top; null deletes. */
  with(changes: Iterable<readonly [string, V | null]>): LayeredMap<V> {
    const layer = new Map(this.#layer);
    let size = this.size;
    for (const [key, value] of changes) {
      const before = layer.get(key) ?? (layer.has(key) ? undefined : this.#base.get(key));
      size += (value === null ? 0 : 1) - (before === undefined ? 0 : 1);
      layer.set(key, value);
    }
    const next = new LayeredMap(this.#base, layer, size);
    return layer.size > MAX_LAYER ? LayeredMap.of(next) : next;
  }

  get(key: string): V | undefined {
    const own = this.#layer.get(key);
    return own === undefined ? this.#base.get(key) : (own ?? undefined);
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  *entries(): MapIterator<[string, V]> {
    for (const [key, value] of this.#base) if (!this.#layer.has(key)) yield [key, value];
    for (const [key, value] of this.#layer) if (value !== null) yield [key, value];
  }

  *keys(): MapIterator<string> {
    for (const [key] of this) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  forEach(callback: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this) callback(value, key, this);
  }
}
