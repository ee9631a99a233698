import type { StoreStamps } from '../../server/records/record-kind.ts';
import { StoreError, type StoreReader } from '../../server/store/store.ts';
import { EventReader } from '../event-reader.ts';
import type { KindMessages } from './encoded-messages.ts';
import type { StreamSink } from './stream-sink.ts';

/** What lists and watches need of a store. */
export type WatchedStore<R extends StoreStamps> = Pick<
  StoreReader<R>,
  'epoch' | 'revision' | 'list' | 'watch' | 'currencyProblem'
>;

export interface WatchStreamOptions<R extends StoreStamps> {
  readonly store: WatchedStore<R>;
  readonly messages: KindMessages<R>;
  readonly since: number;
  /** Events carry their records, and heartbeats come: a reader that knows neither would list again at every one. */
  readonly includeRecords: boolean;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  readonly sink: StreamSink;
  readonly onSent: (what: 'event' | 'heartbeat') => void;
}

/** Serves one watcher until `signal`. Fails as the store's watch does, and when the reader has gone. */
export async function serveWatch<R extends StoreStamps>(options: WatchStreamOptions<R>): Promise<void> {
  const { store, messages, includeRecords, signal, sink, onSent } = options;
  // Subscribed before anything is awaited, so that nothing falls between the two.
  const reader = new EventReader(store.watch(options.since, signal)[Symbol.asyncIterator]());
  try {
    let sent = options.since;
    const epoch = await store.epoch();
    await reader.settle();
    sink.begin();
    // A watch that has nothing to tell says so at once.
    let silent = includeRecords;
    while (!signal.aborted) {
      // Who is cut off must not say that nothing changed: the reader goes to another one.
      const problem = silent ? store.currencyProblem() : null;
      if (problem !== null) throw new StoreError('not_current', `this registry may be out of date: ${problem}`);
      if (silent && (await store.revision()) === sent) {
        await sink.write(messages.heartbeatFrame(epoch, sent));
        onSent('heartbeat');
      }
      const event = await reader.next(includeRecords ? options.heartbeatMs : null);
      if (event === 'ended') return;
      // Where the store is ahead after a silence, an event is on its way, and says more than a heartbeat.
      silent = event === 'silence';
      if (event === 'silence') continue;
      sent = event.revision;
      const full = sink.write(messages.eventFrame(event, includeRecords));
      onSent('event');
      if (full !== undefined) await full;
    }
  } finally {
    reader.close();
  }
}
