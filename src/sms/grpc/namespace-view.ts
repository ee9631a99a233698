import type { RegistryEvent } from '../../protocol/record-events.ts';
import { idOf, type StoreStamps } from '../../protocol/record-kind.ts';
import type { RegistryStore } from '../store/store.ts';
import type { WatchedStore } from './watch-stream.ts';

/**
 * A store as somebody of one namespace reads it. Revisions are those of all: an event of another namespace is one in which
 * nothing changed.
 */
export function namespaceView<R extends StoreStamps>(
  store: RegistryStore<R>,
  namespace: string,
  namespaceOf: (id: string) => string,
): WatchedStore<R> {
  const theirs = (id: string) => namespaceOf(id) === namespace;
  return {
    epoch: () => store.epoch(),
    revision: () => store.revision(),
    currencyProblem: () => store.currencyProblem(),
    list: async () => {
      const listing = await store.list();
      return { ...listing, records: listing.records.filter((record) => theirs(idOf(store.kind, record))) };
    },
    async *watch(since, signal) {
      for await (const event of store.watch(since, signal)) {
        const seen: RegistryEvent<R> = {
          ...event,
          upserts: event.upserts.filter((record) => theirs(idOf(store.kind, record))),
          deletes: event.deletes.filter(theirs),
        };
        yield seen;
      }
    },
  };
}
