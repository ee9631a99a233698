import type { Caller } from '../identity/caller.ts';
import { type TaskContent, type TaskRevision, taskId } from '../records/task.ts';

export type NamedTask = Pick<TaskContent, 'namespace' | 'name'>;

/** A task with its live revision and its number of revisions. */
export interface Task {
  readonly namespace: string;
  readonly name: string;
  readonly live: TaskRevision;
  readonly revisions: number;
  /** The file that defines the task; null if it was applied through the API. */
  readonly fromFile: string | null;
  /** Digest of the last content of the file, which may differ from the live revision. */
  readonly fileDigest: string | null;
}

export interface AppliedTask {
  readonly task: Task;
  readonly outcome: 'created' | 'updated' | 'unchanged';
}

/** Store of tasks: their immutable revisions, and which one is live. */
export interface TaskBook {
  /** `namespace` null: all namespaces. */
  list(namespace: string | null): readonly Task[] | Promise<readonly Task[]>;
  find(named: NamedTask): Task | null | Promise<Task | null>;
  /** Newest first. */
  revisions(named: NamedTask): readonly TaskRevision[] | Promise<readonly TaskRevision[]>;
  /** Whether a revision that is retained has this module. `namespace` null: of any namespace. */
  hasModule(namespace: string | null, sha256: string): boolean | Promise<boolean>;
  /** Makes the content live. Content that equals a retained revision reuses its number. */
  apply(content: TaskContent, by: string, fromFile: string | null, caller: Caller): AppliedTask | Promise<AppliedTask>;
  /** Makes a revision the live one. @throws TaskError */
  promote(named: NamedTask, revision: number, caller: Caller): Task | Promise<Task>;
  /** Rejects new runs of the task; its revisions remain for existing runs. @throws TaskError */
  remove(named: NamedTask, caller: Caller): void | Promise<void>;
}

export function unknownTask(named: NamedTask): TaskError {
  return new TaskError('unknown', `there is no task ${taskId(named)}; list the tasks with spear tasks ls`);
}

export function unknownRevision(named: NamedTask, revision: number): TaskError {
  return new TaskError(
    'unknown',
    `${taskId(named)} has no revision ${revision}; list the revisions with spear tasks get`,
  );
}

/**
 * `invalid`: the content is rejected. `unknown`: no such task or revision. `no_module`: no module with that digest.
 * `elsewhere`: tasks are managed by another server. `busy`: too many requests in flight. Nothing was changed in any case.
 */
export type TaskErrorCode = 'invalid' | 'unknown' | 'no_module' | 'not_stored' | 'elsewhere' | 'busy';

/** Rejected task operation. The message names the file or task, the value found, and the fix. */
export class TaskError extends Error {
  readonly code: TaskErrorCode;

  constructor(code: TaskErrorCode, message: string) {
    super(message);
    this.name = 'TaskError';
    this.code = code;
  }
}
