import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import {
  ExecutableType,
  type RegisterTaskRequest,
  TaskSchema,
  type TaskService,
  TaskStatus,
  type Task as WireTask,
} from '../../../generated/proto/sms/task_pb.ts';
import { DEFAULT_NAMESPACE } from '../../../runtime/port/policy-layers.ts';
import { mayName } from '../../../server/identity/identity.ts';
import type { ServiceLog } from '../../../server/log/service-log.ts';
import { ALL_NAMESPACES, type Identity } from '../../../server/records/permissions.ts';
import { isTaskId, type TaskRevision, taskId } from '../../../server/records/task.ts';
import type { TaskRequests } from '../../../server/routes/task-requests.ts';
import { type NamedTask, type Task, TaskError } from '../../../server/tasks/task-book.ts';
import type { RegistryTasks } from '../../tasks/registry-tasks.ts';
import { callerOf, identityOf, toStatus } from '../grpc-call.ts';

export interface TaskServiceDeps {
  readonly tasks: RegistryTasks;
  readonly taskRequests: TaskRequests;
  readonly log: ServiceLog;
}

/** Task API for clients of the original SMS (fixtures/proto/original_task.proto). Nodes use TaskRecordService. */
export function taskService({ tasks, taskRequests, log }: TaskServiceDeps): ServiceImpl<typeof TaskService> {
  const fail = (error: unknown): never => {
    throw toStatus(error, (reason) => log('error', 'grpc_failed', { reason: String(reason) }));
  };
  /** What they refuse is an answer of theirs; what fails otherwise is one of gRPC. */
  const refused = (error: unknown): { success: boolean; message: string } =>
    error instanceof TaskError ? { success: false, message: error.message } : fail(error);

  return {
    async registerTask(request, { values }) {
      const identity = identityOf(values);
      const named = namedBy(request.name, identity);
      try {
        const before = await tasks.find(named);
        const given = documentOf(named, request, before?.live ?? null);
        const { task, outcome } = await taskRequests.apply(named, given, identity, callerOf(values));
        log('info', 'task_changed', { task: taskId(task), revision: task.live.revision, outcome, via: 'grpc' });
        const message = `revision ${task.live.revision} ${outcome}`;
        return { success: true, message, taskId: taskId(task), task: toWire(task) };
      } catch (error) {
        return refused(error);
      }
    },

    async listTasks({ statusFilter, limit, offset }, { values }) {
      const { namespace } = identityOf(values);
      if (limit < 0 || offset < 0)
        throw new ConnectError('limit and offset must not be negative', Code.InvalidArgument);
      const wanted = statusFilter === TaskStatus.UNKNOWN || statusFilter === TaskStatus.ACTIVE;
      const all = wanted ? await tasks.list(namespace === ALL_NAMESPACES ? null : namespace).catch(fail) : [];
      const page = all.slice(offset, limit === 0 ? undefined : offset + limit);
      return { tasks: page.map(toWire), totalCount: all.length };
    },

    async getTask({ taskId: id }, { values }) {
      const [namespace = '', name = ''] = id.split('/');
      const isTheirs = isTaskId(id) && mayName(identityOf(values), namespace);
      const task = isTheirs ? await tasks.find({ namespace, name }).catch(fail) : null;
      return task === null ? { found: false } : { found: true, task: toWire(task) };
    },

    async unregisterTask({ taskId: id }, { values }) {
      const named = namedBy(id, identityOf(values));
      try {
        await tasks.remove(named, callerOf(values));
        log('info', 'task_changed', { task: taskId(named), outcome: 'removed', via: 'grpc' });
        return { success: true, message: 'removed', taskId: taskId(named) };
      } catch (error) {
        return { ...refused(error), taskId: taskId(named) };
      }
    },
  };
}

function namedBy(text: string, caller: Identity): NamedTask {
  const own = caller.namespace === ALL_NAMESPACES ? DEFAULT_NAMESPACE : caller.namespace;
  const id = text.includes('/') ? text : `${own}/${text}`;
  if (!isTaskId(id)) throw new ConnectError('name: expected NAME or NAMESPACE/NAME', Code.InvalidArgument);
  const [namespace = '', name = ''] = id.split('/');
  if (mayName(caller, namespace)) return { namespace, name };
  throw new ConnectError(`"${caller.name}" is limited to the namespace "${caller.namespace}"`, Code.PermissionDenied);
}

/** A task file of what they said; what they cannot say stays as it is. */
function documentOf(
  named: NamedTask,
  { description, config, executable }: RegisterTaskRequest,
  live: TaskRevision | null,
) {
  if (executable === undefined || executable.type !== ExecutableType.WASM) {
    throw new TaskError('invalid', 'executable.type: must be EXECUTABLE_TYPE_WASM (4)');
  }
  const { uri, checksumSha256, args, env } = executable;
  const wasm = uri === '' ? `sha256:${checksumSha256}` : uri;
  if (checksumSha256 !== '' && wasm !== `sha256:${checksumSha256}`) {
    throw new TaskError(
      'invalid',
      'executable.checksum_sha256: does not match executable.uri, which must be "sha256:" and hex digits',
    );
  }
  return { ...named, ...(live === null ? {} : keptOf(live)), description, config, wasm, args, env };
}

function keptOf({ backend, pool, isolation, concurrency, limits, retry, budgets }: TaskRevision) {
  const set = Object.entries(budgets).filter(([, tokens]) => tokens !== null);
  return {
    ...{ pool, isolation, concurrency, limits, retry, budgets: Object.fromEntries(set) },
    ...(backend === null ? {} : { backend }),
  };
}

function toWire({ live, ...named }: Task): WireTask {
  const { namespace, pool, isolation, digest, created_by } = live;
  const config = Object.entries(live.config).map(([key, value]): [string, string] => [
    key,
    typeof value === 'string' ? value : JSON.stringify(value),
  ]);
  return create(TaskSchema, {
    taskId: taskId(named),
    name: live.name,
    description: live.description,
    status: TaskStatus.ACTIVE,
    version: String(live.revision),
    registeredAt: BigInt(Math.floor(live.created_at_ms / 1000)),
    metadata: { namespace, pool, isolation, digest, created_by },
    config: Object.fromEntries(config),
    executable: {
      type: ExecutableType.WASM,
      uri: `sha256:${live.wasm}`,
      name: live.name,
      checksumSha256: live.wasm,
      args: [...live.args],
      env: { ...live.env },
    },
  });
}
