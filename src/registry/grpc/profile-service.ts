import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import type { McpProfileService } from '../../generated/proto/sms/mcp_profile_pb.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { profileContent } from '../../server/records/wire.ts';
import { InvalidRecord, writeRecord } from '../../server/store/record-write.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import { profileMessages } from './encoded-messages.ts';
import { callerOf } from './grpc-call.ts';
import { KindReads, type KindServiceDeps } from './kind-reads.ts';

export function profileService(
  store: AuditedStore<McpProfile>,
  deps: KindServiceDeps,
): ServiceImpl<typeof McpProfileService> {
  const { metrics, log } = deps;
  const reads = new KindReads(store, profileMessages, deps);
  return {
    listMcpProfiles: (_, { values }) => reads.list(values),
    watchMcpProfiles: ({ sinceRevision }, { signal, values }) =>
      reads.watch({ sinceRevision, includeRecords: true }, signal, values),

    async upsertMcpProfile({ profile }, { values }) {
      const startedAt = performance.now();
      try {
        if (profile === undefined) throw new InvalidRecord([{ path: '', message: 'is required' }]);
        const input = () => profileContent(profile);
        const written = await writeRecord(store.as(callerOf(values)), { id: profile.name, input, strict: deps.strict });
        metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
        if (written.changed) log('info', 'upsert', { profile: profile.name, revision: written.revision, via: 'grpc' });
        return { revision: BigInt(written.revision) };
      } catch (error) {
        return reads.fail(error);
      }
    },

    async deleteMcpProfile({ name }, { values }) {
      if (!store.kind.isId(name)) throw new ConnectError('there is no such profile', Code.NotFound);
      const startedAt = performance.now();
      const revision = await store.as(callerOf(values)).remove(name).catch(reads.fail);
      metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
      log('info', 'delete', { profile: name, revision, via: 'grpc' });
      return { revision: BigInt(revision) };
    },
  };
}
