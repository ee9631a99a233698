import { Code, ConnectError, type ContextValues } from '@connectrpc/connect';
import type { HeldBytes } from '../../server/http/http-reply.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { RegistryListing, StoreStamps } from '../../server/records/record-kind.ts';
import { StoreError, type StoreReader } from '../../server/store/store.ts';
import { EventReader } from '../event-reader.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';
import type { KindMessages } from './encoded-messages.ts';
import { toStatus } from './grpc-call.ts';
import { type StreamSink, streamSink } from './stream-sink.ts';

/** What the services of all kinds share. */
export interface KindServiceDeps {
  readonly strict: boolean;
  readonly heartbeatMs: number;
  /** Of all kinds together. */
  readonly watchers: WatcherCount;
  /** What lists that are on their way take. */
  readonly held: HeldBytes;
  readonly metrics: RegistryMetrics;
  readonly log: ServiceLog;
}

/** Open watches; one more than `max` is refused. */
export class WatcherCount {
  readonly #max: number;
  #open = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get open(): number {
    return this.#open;
  }

  /** Returns the way to end it. */
  begin(): () => void {
    if (this.#open >= this.#max) {
      throw new ConnectError(`${this.#open} watches are open, the maximum`, Code.ResourceExhausted);
    }
    this.#open += 1;
    return () => {
      this.#open -= 1;
    };
  }
}

export interface WatchRequest {
  readonly sinceRevision: bigint;
  readonly includeRecords: boolean;
}

/** List and watch of one kind of record. Messages take the short way, past the library that answers the calls. */
export class KindReads<R extends StoreStamps> {
  readonly #store: WatchedStore<R>;
  readonly #messages: KindMessages<R>;
  readonly #deps: KindServiceDeps;
  readonly #frameOf: (listing: RegistryListing<R>) => Uint8Array;

  constructor(store: WatchedStore<R>, messages: KindMessages<R>, deps: KindServiceDeps) {
    this.#store = store;
    this.#messages = messages;
    this.#deps = deps;
    this.#frameOf = latestFrame(messages);
  }

  /** What a call fails with. */
  readonly fail = (error: unknown): never => {
    throw toStatus(error, (reason) => this.#deps.log('error', 'grpc_failed', { reason: String(reason) }));
  };

  async list(values: ContextValues): Promise<Record<string, never>> {
    const sink = sinkOf(values);
    const frame = this.#frameOf(await this.#store.list().catch(this.fail));
    const release = this.#deps.held.hold(sink.peer, frame);
    if (release === null) {
      throw new ConnectError('too many list responses are waiting for slow clients; try again', Code.ResourceExhausted);
    }
    try {
      sink.begin();
      await sink.writeSlowly(frame);
    } finally {
      release();
    }
    return {};
  }

  watch(request: WatchRequest, signal: AbortSignal, values: ContextValues): AsyncIterable<never> {
    return withoutMessages(() => this.#watch(request, signal, sinkOf(values)));
  }

  async #watch(request: WatchRequest, signal: AbortSignal, sink: StreamSink): Promise<void> {
    const { metrics, heartbeatMs, watchers } = this.#deps;
    const end = watchers.begin();
    try {
      await serveWatch({
        store: this.#store,
        messages: this.#messages,
        since: Number(request.sinceRevision),
        includeRecords: request.includeRecords,
        heartbeatMs,
        signal,
        sink,
        onSent: (what) => (what === 'event' ? metrics.watchEvents : metrics.heartbeats).add(1),
      });
      // A server that ends says so; a client that left will not read it.
      if (signal.aborted) throw signal.reason;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'lagging') metrics.laggingWatchers.add(1);
      if (signal.aborted) throw signal.reason;
      this.fail(error);
    } finally {
      end();
    }
  }
}

function sinkOf(values: ContextValues): StreamSink {
  const sink = values.get(streamSink);
  if (sink === null) throw new Error('the response has no stream sink');
  return sink;
}

/** Encodes each revision once, for all who ask for it. */
function latestFrame<R>(messages: KindMessages<R>): (listing: RegistryListing<R>) => Uint8Array {
  let latest: { epoch: string; revision: number; frame: Uint8Array } = { epoch: '', revision: -1, frame: Buffer.of() };
  return (listing) => {
    const { epoch, revision } = listing;
    if (latest.epoch !== epoch || latest.revision !== revision) {
      latest = { epoch, revision, frame: messages.listFrame(listing) };
    }
    return latest.frame;
  };
}

/** A stream whose messages take the short way; the library is left with how it ends. */
function withoutMessages(work: () => Promise<void>): AsyncIterable<never> {
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        await work();
        return { done: true, value: undefined };
      },
    }),
  };
}

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
