import { Code, ConnectError, type ContextValues, type ServiceImpl } from '@connectrpc/connect';
import type { McpRegistryService, WatchMcpServersRequest } from '../../protocol/generated/sms/mcp_registry_pb.ts';
import { isServerId } from '../../protocol/record.ts';
import type { RegistryListing } from '../../protocol/record-events.ts';
import { upsertToInput } from '../../protocol/record-wire.ts';
import type { HeldBytes } from '../held-bytes.ts';
import type { SmsMetrics } from '../metrics/sms-metrics.ts';
import { InvalidRecord, writeRecord } from '../record-write.ts';
import type { ServiceLog } from '../service-log.ts';
import { type RegistryStore, StoreError } from '../store/store.ts';
import { listFrame } from './encoded-messages.ts';
import { toStatus } from './grpc-errors.ts';
import { streamSink } from './stream-sink.ts';
import { serveWatch } from './watch-stream.ts';

export interface RegistryServiceDeps {
  readonly store: RegistryStore;
  readonly strict: boolean;
  readonly heartbeatMs: number;
  readonly maxWatchers: number;
  /** What lists that are on their way take. */
  readonly held: HeldBytes;
  readonly metrics: SmsMetrics;
  readonly log: ServiceLog;
}

export interface RegistryService {
  readonly implementation: ServiceImpl<typeof McpRegistryService>;
  readonly watcherCount: number;
}

export function registryService(deps: RegistryServiceDeps): RegistryService {
  const { store, metrics, log } = deps;
  let watchers = 0;
  const frameOfList = latestFrame();
  const fail = (error: unknown): never => {
    throw toStatus(error, (reason) => log('error', 'grpc_failed', { reason: String(reason) }));
  };

  const watch = async (request: WatchMcpServersRequest, signal: AbortSignal, values: ContextValues) => {
    const sink = values.get(streamSink);
    if (sink === null) throw new Error('a watch has nowhere to write to');
    if (watchers >= deps.maxWatchers) {
      throw new ConnectError(`there are ${watchers} watchers already`, Code.ResourceExhausted);
    }
    watchers += 1;
    try {
      await serveWatch({
        store,
        since: Number(request.sinceRevision),
        includeRecords: request.includeRecords,
        heartbeatMs: deps.heartbeatMs,
        signal,
        sink,
        onSent: (what) => (what === 'event' ? metrics.watchEvents : metrics.heartbeats).add(1),
      });
      // A server that ends says so; a client that left will not read it.
      if (signal.aborted) throw signal.reason;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'lagging') metrics.laggingWatchers.add(1);
      if (signal.aborted) throw signal.reason;
      fail(error);
    } finally {
      watchers -= 1;
    }
  };

  return {
    get watcherCount() {
      return watchers;
    },
    implementation: {
      async listMcpServers(_, { values }) {
        const sink = values.get(streamSink);
        if (sink === null) throw new Error('a list has nowhere to write to');
        const frame = frameOfList(await store.list().catch(fail));
        const release = deps.held.hold(sink.peer, frame);
        if (release === null) {
          throw new ConnectError('too many lists are waiting for their readers; try again', Code.ResourceExhausted);
        }
        try {
          sink.begin();
          await sink.writeSlowly(frame);
        } finally {
          release();
        }
        return {};
      },

      watchMcpServers: (request, { signal, values }) => withoutMessages(() => watch(request, signal, values)),

      async upsertMcpServer({ record }) {
        const startedAt = performance.now();
        try {
          if (record === undefined) throw new InvalidRecord([{ path: '', message: 'is required' }]);
          const written = await writeRecord(store, {
            serverId: record.serverId,
            input: (stored) => upsertToInput(record, stored),
            strict: deps.strict,
          });
          metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
          if (written.changed)
            log('info', 'upsert', { server: record.serverId, revision: written.revision, via: 'grpc' });
          return { revision: BigInt(written.revision) };
        } catch (error) {
          return fail(error);
        }
      },

      async deleteMcpServer({ serverId }) {
        if (!isServerId(serverId)) throw new ConnectError('there is no such server', Code.NotFound);
        const startedAt = performance.now();
        const revision = await store.remove(serverId).catch(fail);
        metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
        log('info', 'delete', { server: serverId, revision, via: 'grpc' });
        return { revision: BigInt(revision) };
      },
    },
  };
}

/** Encodes each revision once, for all who ask for it. */
function latestFrame(): (listing: RegistryListing) => Uint8Array {
  let latest: { epoch: string; revision: number; frame: Uint8Array } = { epoch: '', revision: -1, frame: Buffer.of() };
  return (listing) => {
    const { epoch, revision } = listing;
    if (latest.epoch !== epoch || latest.revision !== revision) latest = { epoch, revision, frame: listFrame(listing) };
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
