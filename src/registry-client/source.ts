import type { RegistryEvent, RegistryListing, StoreStamps } from '../server/records/record-kind.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import type { StoreReader } from '../server/store/store.ts';

/** The source rejected this node: its token is unknown or revoked. */
export class RegistryRefused extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RegistryRefused';
  }
}

/** Liveness message: the registry is at `revision` now. */
export interface RegistryHeartbeat {
  readonly heartbeat: true;
  readonly epoch: string;
  readonly revision: number;
}

export type RegistryWatchItem<R = McpServerRecord> = RegistryEvent<R> | RegistryHeartbeat;

/**
 * Where a node's cache gets the records of a kind: a registry over the network, or a store in the same process. Both calls
 * honour `signal`. Any error means "list again"; RegistryRefused additionally changes the state of the cache.
 */
export interface RegistrySource<R = McpServerRecord> {
  /** All records. A source without epochs always returns an empty epoch. */
  list(signal: AbortSignal): Promise<RegistryListing<R>>;
  /** Every change after `since`, until the stream ends. */
  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryWatchItem<R>>;
  /**
   * Whether events carry the changed records. Read at every event, because a source learns it from its peer. If they do not,
   * an event only signals a change, and the cache lists again.
   */
  readonly canWatchRecords: boolean;
}

export function isHeartbeat(item: RegistryWatchItem<unknown>): item is RegistryHeartbeat {
  return 'heartbeat' in item;
}

/** A store in the same process as the source of a cache. */
export function inProcessSource<R extends StoreStamps>(store: StoreReader<R>): RegistrySource<R> {
  return {
    canWatchRecords: true,
    list: () => store.list(),
    watch: (since, signal) => store.watch(since, signal),
  };
}
