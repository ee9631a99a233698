import { randomUUID } from 'node:crypto';
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
export function createMemoryStore(options: StoreOptions = {}): RegistryStore {
  return new LocalStore({
    state: { epoch: randomUUID(), revision: 0, compacted: 0, servers: new Map(), log: [], damaged: [] },
    durability: { write() {}, close() {} },
    keptChanges: options.keptChanges ?? DEFAULT_KEPT_CHANGES,
    watcherQueue: options.watcherQueue ?? DEFAULT_WATCHER_QUEUE,
    now: options.now ?? Date.now,
  });
}
