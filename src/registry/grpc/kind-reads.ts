import { Code, ConnectError, type ContextValues } from '@connectrpc/connect';
import type { HeldBytes } from '../../server/http/held-bytes.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { RegistryListing, StoreStamps } from '../../server/records/record-kind.ts';
import { StoreError } from '../../server/store/store.ts';
import type { SmsMetrics } from '../sms-metrics.ts';
import type { KindMessages } from './encoded-messages.ts';
import { toStatus } from './grpc-errors.ts';
import { type StreamSink, streamSink } from './stream-sink.ts';
import { serveWatch, type WatchedStore } from './watch-stream.ts';

/** What the services of all kinds share. */
export interface KindServiceDeps {
  readonly strict: boolean;
  readonly heartbeatMs: number;
  /** Of all kinds together. */
  readonly watchers: WatcherCount;
  /** What lists that are on their way take. */
  readonly held: HeldBytes;
  readonly metrics: SmsMetrics;
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
