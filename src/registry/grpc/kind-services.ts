import { Code, ConnectError, type ContextValues, type ServiceImpl } from '@connectrpc/connect';
import type { McpProfileService } from '../../generated/proto/sms/mcp_profile_pb.ts';
import type { McpRegistryService } from '../../generated/proto/sms/mcp_registry_pb.ts';
import type { StopService } from '../../generated/proto/sms/stop_pb.ts';
import type { TaskRecordService } from '../../generated/proto/sms/task_records_pb.ts';
import { mayName } from '../../server/identity/identity.ts';
import { isServerId } from '../../server/records/field-rules.ts';
import { ALL_NAMESPACES } from '../../server/records/permissions.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { namespaceOfStop, type StopRecord } from '../../server/records/stop.ts';
import { isTaskId, type TaskRecord } from '../../server/records/task.ts';
import { profileContent, revisionToWire, upsertToInput } from '../../server/records/wire.ts';
import { InvalidRecord, writeRecord } from '../../server/store/record-write.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { Blobs } from '../../server/tasks/blobs.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { RegistryTasks } from '../tasks/registry-tasks.ts';
import { profileMessages, serverMessages, stopMessages, taskMessages } from './encoded-messages.ts';
import { callerOf, identityOf } from './grpc-call.ts';
import { KindReads, type KindServiceDeps, namespaceView } from './kind-reads.ts';

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

/** Stops as nodes follow them. A node of one namespace does not see stops of another namespace. */
export function stopService(store: StoreReader<StopRecord>, deps: KindServiceDeps): ServiceImpl<typeof StopService> {
  const ofAll = new KindReads(store, stopMessages, deps);
  const reads = (values: ContextValues): KindReads<StopRecord> => {
    const { namespace } = identityOf(values);
    if (namespace === ALL_NAMESPACES) return ofAll;
    const isVisible = (stop: StopRecord) => (namespaceOfStop(stop) ?? namespace) === namespace;
    // Ids of lifted stops are random and reveal nothing.
    return new KindReads(
      namespaceView(store, isVisible, () => true),
      stopMessages,
      deps,
    );
  };
  return {
    listStops: (_, { values }) => reads(values).list(values),
    watchStops: ({ sinceRevision }, { signal, values }) =>
      reads(values).watch({ sinceRevision, includeRecords: true }, signal, values),
  };
}

export interface TaskRecordServiceDeps extends KindServiceDeps {
  readonly taskStore: StoreReader<TaskRecord>;
  readonly tasks: RegistryTasks;
  readonly blobs: Blobs;
}

/** Tasks as nodes follow them. */
export function taskRecordService({
  taskStore,
  tasks,
  blobs,
  ...deps
}: TaskRecordServiceDeps): ServiceImpl<typeof TaskRecordService> {
  const ofAll = new KindReads(taskStore, taskMessages, deps);
  const reads = (values: ContextValues): KindReads<TaskRecord> => {
    const { namespace } = identityOf(values);
    if (namespace === ALL_NAMESPACES) return ofAll;
    const isVisibleId = (id: string) => id.split('/', 1)[0] === namespace;
    const view = namespaceView(taskStore, (task) => task.namespace === namespace, isVisibleId);
    return new KindReads(view, taskMessages, deps);
  };
  return {
    listTaskRecords: (_, { values }) => reads(values).list(values),
    watchTaskRecords: ({ sinceRevision }, { signal, values }) =>
      reads(values).watch({ sinceRevision, includeRecords: true }, signal, values),

    async getTaskRevision({ taskId: id, revision }, { values }) {
      const [namespace = '', name = ''] = id.split('/');
      const isTheirs = isTaskId(id) && mayName(identityOf(values), namespace);
      const found = isTheirs ? await tasks.revision({ namespace, name }, Number(revision)).catch(ofAll.fail) : null;
      if (found === null) throw new ConnectError('there is no such revision', Code.NotFound);
      return { revision: revisionToWire(found) };
    },

    async *readTaskModule({ sha256 }, { values }) {
      const { namespace } = identityOf(values);
      const isTheirs = namespace === ALL_NAMESPACES || (await tasks.hasModule(namespace, sha256).catch(ofAll.fail));
      const stream = isTheirs ? blobs.stream(sha256) : null;
      if (stream === null) throw new ConnectError('there is no such module', Code.NotFound);
      for await (const chunk of stream) yield { chunk };
    },
  };
}
