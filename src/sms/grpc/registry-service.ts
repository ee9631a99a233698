import { Code, ConnectError, createContextKey, type ServiceImpl } from '@connectrpc/connect';
import type { McpRegistryService } from '../../protocol/generated/sms/mcp_registry_pb.ts';
import { isServerId } from '../../protocol/record.ts';
import { upsertToInput } from '../../protocol/record-wire.ts';
import type { ServiceLog } from '../../telemetry/service-log.ts';
import type { SmsMetrics } from '../metrics/sms-metrics.ts';
import { InvalidRecord, writeRecord } from '../record-write.ts';
import { type RegistryStore, StoreError } from '../store/store.ts';
import { listResponse } from './encoded-messages.ts';
import { toStatus } from './grpc-errors.ts';
import { watchStream } from './watch-stream.ts';

export interface RegistryServiceDeps {
  readonly store: RegistryStore;
  readonly strict: boolean;
  readonly heartbeatMs: number;
  readonly maxWatchers: number;
  readonly metrics: SmsMetrics;
  readonly log: ServiceLog;
}

/** Lets the service send the headers of a stream before its first message. */
export const streamBegun = createContextKey<() => void>(() => {}, { description: 'the stream has begun' });

export interface RegistryService {
  readonly implementation: ServiceImpl<typeof McpRegistryService>;
  readonly watcherCount: number;
}

export function registryService(deps: RegistryServiceDeps): RegistryService {
  const { store, metrics, log } = deps;
  let watchers = 0;
  const fail = (error: unknown): never => {
    throw toStatus(error, (reason) => log('error', 'grpc_failed', { reason: String(reason) }));
  };

  return {
    get watcherCount() {
      return watchers;
    },
    implementation: {
      async listMcpServers() {
        return listResponse(await store.list().catch(fail));
      },

      async *watchMcpServers(request, { signal, values }) {
        if (watchers >= deps.maxWatchers) {
          throw new ConnectError(`there are ${watchers} watchers already`, Code.ResourceExhausted);
        }
        watchers += 1;
        try {
          const stream = watchStream({
            store,
            since: Number(request.sinceRevision),
            includeRecords: request.includeRecords,
            heartbeatMs: deps.heartbeatMs,
            signal,
            onBegun: values.get(streamBegun),
          });
          for await (const response of stream) {
            (response.event?.heartbeat ? metrics.heartbeats : metrics.watchEvents).add();
            yield response;
          }
          // A server that ends says so; a client that left will not read it.
          if (signal.aborted) throw signal.reason;
        } catch (error) {
          if (error instanceof StoreError && error.code === 'lagging') metrics.laggingWatchers.add();
          if (signal.aborted && error === signal.reason) throw error;
          fail(error);
        } finally {
          watchers -= 1;
        }
      },

      async upsertMcpServer({ record }) {
        const startedAt = performance.now();
        try {
          if (record === undefined) throw new InvalidRecord([{ path: '', message: 'is required' }]);
          const written = await writeRecord(store, {
            serverId: record.serverId,
            input: (stored) => upsertToInput(record, stored),
            strict: deps.strict,
          });
          metrics.writeSeconds.observe((performance.now() - startedAt) / 1000);
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
        metrics.writeSeconds.observe((performance.now() - startedAt) / 1000);
        log('info', 'delete', { server: serverId, revision, via: 'grpc' });
        return { revision: BigInt(revision) };
      },
    },
  };
}
