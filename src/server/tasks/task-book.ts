import type { Caller } from '../identity/caller.ts';
import { type TaskContent, type TaskRevision, taskId } from '../records/task.ts';
import { TaskError } from './task-error.ts';

export type NamedTask = Pick<TaskContent, 'namespace' | 'name'>;

/** A task as it stands: its live revision and how many there are. */
export interface Task {
  readonly namespace: string;
  readonly name: string;
  readonly live: TaskRevision;
  readonly revisions: number;
  /** The file that it comes from; null: it was applied. */
  readonly fromFile: string | null;
  /** Of what the file last said, whatever is live now. */
  readonly fileDigest: string | null;
}

export interface AppliedTask {
  readonly task: Task;
  readonly outcome: 'created' | 'updated' | 'unchanged';
}

/** Where tasks are kept: all their revisions, and which of them is live. A revision never changes. */
export interface TaskBook {
  /** `namespace` null: of all. */
  list(namespace: string | null): readonly Task[] | Promise<readonly Task[]>;
  find(named: NamedTask): Task | null | Promise<Task | null>;
  /** The newest first. */
  revisions(named: NamedTask): readonly TaskRevision[] | Promise<readonly TaskRevision[]>;
  /** Whether a revision that is retained has this module. `namespace` null: of any namespace. */
  hasModule(namespace: string | null, sha256: string): boolean | Promise<boolean>;
  /** Content that was there before gets its old number back: what was applied is live. */
  apply(content: TaskContent, by: string, fromFile: string | null, caller: Caller): AppliedTask | Promise<AppliedTask>;
  /** Makes a revision the live one. @throws TaskError */
  promote(named: NamedTask, revision: number, caller: Caller): Task | Promise<Task>;
  /** Nothing more of it can be submitted; its revisions stay for the runs that have them. @throws TaskError */
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
