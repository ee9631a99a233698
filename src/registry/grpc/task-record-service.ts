import { Code, ConnectError, type ContextValues, type ServiceImpl } from '@connectrpc/connect';
import type { TaskRecordService } from '../../generated/proto/sms/task_records_pb.ts';
import { mayName } from '../../server/identity/identity.ts';
import { ALL_NAMESPACES } from '../../server/records/permissions.ts';
import { isTaskId, type TaskRecord } from '../../server/records/task.ts';
import { revisionToWire } from '../../server/records/wire.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { Blobs } from '../../server/tasks/blobs.ts';
import type { SmsTasks } from '../tasks/sms-tasks.ts';
import { taskMessages } from './encoded-messages.ts';
import { identityOf } from './grpc-call.ts';
import { KindReads, type KindServiceDeps, namespaceView } from './kind-reads.ts';

export interface TaskRecordServiceDeps extends KindServiceDeps {
  readonly taskStore: StoreReader<TaskRecord>;
  readonly tasks: SmsTasks;
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
