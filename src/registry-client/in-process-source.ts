import type { StoreStamps } from '../../protocol/record-kind.ts';
import type { RegistrySource } from '../../registry/source.ts';
import type { RegistryStore } from './store.ts';

/** A store of the same process as the source of a cache: the same path as over the network, without the network. */
export function inProcessSource<R extends StoreStamps>(store: RegistryStore<R>): RegistrySource<R> {
  return {
    canWatchRecords: true,
    list: () => store.list(),
    watch: (since, signal) => store.watch(since, signal),
  };
}
