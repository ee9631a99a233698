import type { RegistryEvent, RegistryListing } from '../server/records/record-kind.ts';
import type { McpServerRecord } from '../server/records/server.ts';

/** The source answered, and does not accept this node: its token is not, or no longer, one of the registry. */
export class RegistryRefused extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RegistryRefused';
  }
}

/** "Nothing changed, and I am alive": says that the registry is at `revision` now. */
export interface RegistryHeartbeat {
  readonly heartbeat: true;
  readonly epoch: string;
  readonly revision: number;
}

export type RegistryWatchItem<R = McpServerRecord> = RegistryEvent<R> | RegistryHeartbeat;

/**
 * Where a node's cache gets the records of a kind: an SMS over the network, or a store in the same process. Both calls honour
 * `signal`; any error means "list again". Only that the source refuses this node is worth a class of its own.
 */
export interface RegistrySource<R = McpServerRecord> {
  /** All of them. A source that knows no epoch answers an empty one, always. */
  list(signal: AbortSignal): Promise<RegistryListing<R>>;
  /** Everything after `since`, for as long as the stream lives. */
  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryWatchItem<R>>;
  /**
   * Whether events carry the changed records. Asked at every event, so a source may learn it from its peer. Where they
   * do not, an event only says that there is something new, and the cache lists again.
   */
  readonly canWatchRecords: boolean;
}

export function isHeartbeat(item: RegistryWatchItem<unknown>): item is RegistryHeartbeat {
  return 'heartbeat' in item;
}
