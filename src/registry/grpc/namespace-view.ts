import type { StoreStamps } from '../../server/records/record-kind.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { WatchedStore } from './watch-stream.ts';

/**
 * A store as a caller of one namespace reads it. Revisions are those of the whole store: an event of another namespace is
 * one in which nothing changed. `isVisibleId` filters deletions, of which only the id is known.
 */
export function namespaceView<R extends StoreStamps>(
  store: StoreReader<R>,
  isVisible: (record: R) => boolean,
  isVisibleId: (id: string) => boolean,
): WatchedStore<R> {
  return {
    epoch: () => store.epoch(),
    revision: () => store.revision(),
    currencyProblem: () => store.currencyProblem(),
    list: async () => {
      const listing = await store.list();
      return { ...listing, records: listing.records.filter(isVisible) };
    },
    async *watch(since, signal) {
      for await (const event of store.watch(since, signal)) {
        yield { ...event, upserts: event.upserts.filter(isVisible), deletes: event.deletes.filter(isVisibleId) };
      }
    },
  };
}
