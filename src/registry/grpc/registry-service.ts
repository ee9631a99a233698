import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import type { McpRegistryService } from '../../generated/proto/sms/mcp_registry_pb.ts';
import { isServerId } from '../../server/records/field-rules.ts';
import { upsertToInput } from '../../server/records/wire.ts';
import { InvalidRecord, writeRecord } from '../../server/store/record-write.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import { serverMessages } from './encoded-messages.ts';
import { callerOf } from './grpc-call.ts';
import { KindReads, type KindServiceDeps } from './kind-reads.ts';

export function registryService(store: AuditedStore, deps: KindServiceDeps): ServiceImpl<typeof McpRegistryService> {
  const { metrics, log } = deps;
  const reads = new KindReads(store, serverMessages, deps);
  return {
    listMcpServers: (_, { values }) => reads.list(values),
    watchMcpServers: (request, { signal, values }) => reads.watch(request, signal, values),

    async upsertMcpServer({ record }, { values }) {
      const startedAt = performance.now();
      try {
        if (record === undefined) throw new InvalidRecord([{ path: '', message: 'is required' }]);
        const written = await writeRecord(store.as(callerOf(values)), {
          id: record.serverId,
          input: (stored) => upsertToInput(record, stored),
          strict: deps.strict,
        });
        metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
        if (written.changed)
          log('info', 'upsert', { server: record.serverId, revision: written.revision, via: 'grpc' });
        return { revision: BigInt(written.revision) };
      } catch (error) {
        return reads.fail(error);
      }
    },

    async deleteMcpServer({ serverId }, { values }) {
      if (!isServerId(serverId)) throw new ConnectError('there is no such server', Code.NotFound);
      const startedAt = performance.now();
      const revision = await store.as(callerOf(values)).remove(serverId).catch(reads.fail);
      metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
      log('info', 'delete', { server: serverId, revision, via: 'grpc' });
      return { revision: BigInt(revision) };
    },
  };
}
