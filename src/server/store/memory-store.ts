import { randomUUID } from 'node:crypto';
import type { RecordKind, StoreStamps } from '../records/record-kind.ts';
import type { McpServerRecord } from '../records/server.ts';
import { serverKind } from '../records/server.ts';
import { LocalStore } from './local-store.ts';
import { DEFAULT_KEPT_CHANGES, DEFAULT_WATCHER_QUEUE, type RegistryStore } from './store.ts';

export interface StoreOptions {
  /** Changes kept for watchers that come back. @default 10,000 */
  readonly keptChanges?: number;
  /** Events waiting for one watcher before it is cut off. @default 1,024 */
  readonly watcherQueue?: number;
  /** @default Date.now */
  readonly now?: () => number;
}

/** Gone with the process: for tests, and for records that are read from a directory at every start. */
export function createMemoryStore(options: StoreOptions = {}): RegistryStore<McpServerRecord> {
  return createMemoryStoreOf(serverKind, options);
}

export function createMemoryStoreOf<R extends StoreStamps>(
  kind: RecordKind<R>,
  options: StoreOptions = {},
): RegistryStore<R> {
  return new LocalStore({
    kind,
    state: { epoch: randomUUID(), revision: 0, compacted: 0, records: new Map(), log: [], damaged: [] },
    durability: { write() {}, close() {} },
    ...localOptions(options),
  });
}

export function localOptions(options: StoreOptions) {
  return {
    keptChanges: options.keptChanges ?? DEFAULT_KEPT_CHANGES,
    watcherQueue: options.watcherQueue ?? DEFAULT_WATCHER_QUEUE,
    now: options.now ?? Date.now,
  };
}
