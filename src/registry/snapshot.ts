import type { McpServerRecord } from '../protocol/record.ts';
import { sameContent } from '../protocol/record-compare.ts';
import type { RegistryEvent, RegistryListing } from '../protocol/record-events.ts';
import { LayeredMap } from './layered-map.ts';

/** The registry as the node knows it at one revision. Never changed in place: a new one is built, then swapped in. */
export interface RegistrySnapshot {
  readonly epoch: string;
  readonly revision: number;
  /** In no particular order. */
  readonly servers: ReadonlyMap<string, McpServerRecord>;
}

/** A snapshot that outlived the run that made it. */
export interface SavedSnapshot {
  readonly snapshot: RegistrySnapshot;
  /** When the source last said that this is its newest revision, on the wall. */
  readonly confirmedAtMs: number;
}

/** What a swap changed, so that only what depends on it is thrown away. */
export interface RegistryChange {
  readonly snapshot: RegistrySnapshot;
  /** Ids that are new or whose content changed. */
  readonly upserted: readonly string[];
  readonly deleted: readonly string[];
}

export function restoreSnapshot(before: RegistrySnapshot | null, listing: RegistryListing): RegistryChange {
  const servers = LayeredMap.of(listing.servers.map((record) => [record.server_id, record]));
  const gone = before === null ? [] : [...before.servers.keys()].filter((id) => !servers.has(id));
  return describe(before, freeze(listing.epoch, listing.revision, servers), servers.keys(), gone);
}

/** The change that `event` makes; it must start where `before` ends. Looks only at what the event names. */
export function applyEvent(before: RegistrySnapshot, event: RegistryEvent): RegistryChange {
  const gone = event.deletes.filter((id) => before.servers.has(id));
  const upserts = event.upserts.map((record) => [record.server_id, record] as const);
  const known = before.servers instanceof LayeredMap ? before.servers : LayeredMap.of(before.servers);
  const servers = known.with([...gone.map((id) => [id, null] as const), ...upserts]);
  const named = event.upserts.map((record) => record.server_id);
  return describe(before, freeze(event.epoch, event.revision, servers), named, gone);
}

function describe(
  before: RegistrySnapshot | null,
  snapshot: RegistrySnapshot,
  named: Iterable<string>,
  deleted: readonly string[],
): RegistryChange {
  const upserted: string[] = [];
  for (const id of named) {
    const record = snapshot.servers.get(id);
    const old = before?.servers.get(id);
    if (record === undefined || (old !== undefined && sameContent(old, record))) continue;
    upserted.push(id);
  }
  return { snapshot, upserted, deleted };
}

function freeze(epoch: string, revision: number, servers: ReadonlyMap<string, McpServerRecord>): RegistrySnapshot {
  return Object.freeze({ epoch, revision, servers });
}
