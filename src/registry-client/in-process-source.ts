import type { StoreStamps } from '../server/records/record-kind.ts';
import type { StoreReader } from '../server/store/store.ts';
import type { RegistrySource } from './source.ts';

/** A store of the same process as the source of a cache: the same path as over the network, without the network. */
export function inProcessSource<R extends StoreStamps>(store: StoreReader<R>): RegistrySource<R> {
  return {
    canWatchRecords: true,
    list: () => store.list(),
    watch: (since, signal) => store.watch(since, signal),
  };
}
