import { create } from '@bufbuild/protobuf';
import { parseJson } from '../../base/json.ts';
import {
  TaskRecordSchema,
  TaskRevisionSchema,
  type TaskRevision as WireRevision,
  type TaskRecord as WireTask,
} from '../../generated/proto/sms/task_records_pb.ts';
import type { TaskRevision } from './task.ts';
import { taskContentText } from './task-digest.ts';
import type { TaskRecord } from './task-kind.ts';

export function taskToWire(task: TaskRecord): WireTask {
  return create(TaskRecordSchema, {
    taskId: task.task_id,
    namespace: task.namespace,
    name: task.name,
    ...(task.live === null ? {} : { live: revisionToWire(task.live) }),
    lastRevision: BigInt(task.last_revision),
    fromFile: task.from_file ?? '',
    updatedAtMs: BigInt(task.updated_at_ms),
    modRevision: BigInt(task.mod_revision),
  });
}

export function revisionToWire(revision: TaskRevision): WireRevision {
  return create(TaskRevisionSchema, {
    revision: BigInt(revision.revision),
    digest: revision.digest,
    createdAtMs: BigInt(revision.created_at_ms),
    createdBy: revision.created_by,
    contentJson: taskContentText(revision),
  });
}

/** What a peer sent, in the shape that the kind parses. Nothing is checked here. */
export function wireToTaskInput(wire: WireTask): Record<string, unknown> {
  return {
    task_id: wire.taskId,
    namespace: wire.namespace,
    name: wire.name,
    live: wire.live === undefined ? null : wireToRevisionInput(wire.live),
    last_revision: Number(wire.lastRevision),
    from_file: wire.fromFile === '' ? null : wire.fromFile,
    file_digest: null,
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
}

export function wireToRevisionInput(wire: WireRevision): Record<string, unknown> {
  return {
    ...(parseJson(wire.contentJson) as Record<string, unknown> | undefined),
    revision: Number(wire.revision),
    digest: wire.digest,
    created_at_ms: Number(wire.createdAtMs),
    created_by: wire.createdBy,
  };
}
