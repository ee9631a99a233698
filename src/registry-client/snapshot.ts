import {
  idOf,
  type RecordKind,
  type RegistryEvent,
  type RegistryListing,
  type StoreStamps,
  sameContent,
} from '../server/records/record-kind.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import { LayeredMap } from './layered-map.ts';

/** All records of a kind as the node knows them at one revision. Never changed in place: a new one is swapped in. */
export interface RegistrySnapshot<R = McpServerRecord> {
  readonly epoch: string;
  readonly revision: number;
  /** By id, in no particular order. */
  readonly records: ReadonlyMap<string, R>;
}

/** A snapshot that outlived the run that made it. */
export interface SavedSnapshot<R = McpServerRecord> {
  readonly snapshot: RegistrySnapshot<R>;
  /** When the source last said that this is its newest revision, on the wall. */
  readonly confirmedAtMs: number;
}

/** What a swap changed, so that only what depends on it is thrown away. */
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

/** The change that `event` makes; it must start where `before` ends. Looks only at what the event names. */
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
