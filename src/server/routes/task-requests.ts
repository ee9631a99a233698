import { hash } from 'node:crypto';
import { z } from 'zod';
import { parseJson } from '../../base/json.ts';
import { limitSpecs } from '../../runtime/port/limits.ts';
import type { Caller } from '../identity/caller.ts';
import { ALL_NAMESPACES } from '../records/permissions.ts';
import { type TaskContent, type TaskRevision, taskId } from '../records/task.ts';
import type { Admission } from '../tasks/admit-task.ts';
import type { Blobs } from '../tasks/blobs.ts';
import {
  type AppliedTask,
  type NamedTask,
  type Task,
  type TaskBook,
  TaskError,
  unknownTask,
} from '../tasks/task-book.ts';

export const TASKS_PATH = '/admin/api/tasks';
export const TASK_PATH = `${TASKS_PATH}/{namespace}/{name}`;
export const PROMOTE_PATH = `${TASK_PATH}/promote`;
export const BLOB_PATH = '/admin/api/blobs/{sha256}';
export const MAX_TASK_BYTES = 1024 * 1024;
export const MAX_BLOB_BYTES = limitSpecs.module_bytes.max;

/** Queued admissions. Modules are validated one at a time. */
const MAX_ADMISSIONS = 32;
const SHA256 = /^(?:sha256:)?([0-9a-f]{64})$/;

/** The caller of a request. `namespace` is the namespace of its token, or `*`. */
export interface TaskCaller {
  readonly name: string;
  readonly namespace: string;
}

/** Null: all namespaces. */
export const onlyNamespaceOf = ({ namespace }: TaskCaller) => (namespace === ALL_NAMESPACES ? null : namespace);

export interface TaskRequestsDeps {
  readonly tasks: TaskBook;
  readonly blobs: Blobs;
  readonly admission: Admission;
  /** Why this server does not store the content; null if it does. @default always null */
  readonly refuse?: (content: TaskContent) => string | null;
}

/** Task operations, independent of the protocol. Every method throws TaskError. */
export class TaskRequests {
  readonly #deps: TaskRequestsDeps;
  #admitting: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(deps: TaskRequestsDeps) {
    this.#deps = deps;
  }

  async list(namespace: string | null): Promise<{ tasks: ShownTask[] }> {
    return { tasks: (await this.#deps.tasks.list(namespace)).map(taskJson) };
  }

  async get(named: NamedTask): Promise<ShownTask & { all: TaskRevision[] }> {
    const { tasks } = this.#deps;
    const task = await tasks.find(named);
    if (task === null) throw unknownTask(named);
    return { ...taskJson(task), all: (await tasks.revisions(task)).map(maskedRevision) };
  }

  /** `body` is a task file as JSON; its module is named by digest and was uploaded before. */
  async applyJson(
    named: NamedTask,
    body: Uint8Array,
    identity: TaskCaller,
    caller: Caller,
  ): Promise<ShownTask & { outcome: string }> {
    const given = parseJson(Buffer.from(body).toString('utf8'));
    if (given === undefined) throw new TaskError('invalid', 'the body is not valid JSON');
    const { task, outcome } = await this.apply(named, given, identity, caller);
    return { ...taskJson(task), outcome };
  }

  async apply(named: NamedTask, given: unknown, identity: TaskCaller, caller: Caller): Promise<AppliedTask> {
    const { tasks, refuse } = this.#deps;
    const content = await this.#admit(given, identity);
    if (taskId(content) !== taskId(named)) {
      throw new TaskError(
        'invalid',
        `the body defines the task ${taskId(content)}, but the path names ${taskId(named)}`,
      );
    }
    const refused = refuse?.(content) ?? null;
    if (refused !== null) throw new TaskError('invalid', refused);
    return tasks.apply(content, identity.name, null, caller);
  }

  async promote(named: NamedTask, revision: string | null, caller: Caller): Promise<ShownTask> {
    if (!/^[1-9]\d{0,14}$/.test(revision ?? '')) throw new TaskError('invalid', 'revision: expected a revision number');
    return taskJson(await this.#deps.tasks.promote(named, Number(revision), caller));
  }

  async remove(named: NamedTask, caller: Caller): Promise<{ removed: string }> {
    await this.#deps.tasks.remove(named, caller);
    return { removed: named.name };
  }

  /** Reads the whole body even if the module is stored: only a caller that has the bytes may use them by digest. */
  async putBlob(
    sha256: string,
    caller: TaskCaller,
    read: () => Promise<Uint8Array>,
  ): Promise<{ sha256: string; bytes: number }> {
    const bytes = await read();
    const found = hash('sha256', bytes);
    if (found !== sha256)
      throw new TaskError('invalid', `the sha256 of the body is ${found}, which does not match the path`);
    await this.#deps.blobs.put(bytes, onlyNamespaceOf(caller));
    return { sha256, bytes: bytes.byteLength };
  }

  /** The module of a revision in the caller's namespace. */
  async blob(sha256: string, caller: TaskCaller): Promise<Uint8Array> {
    const { tasks, blobs } = this.#deps;
    const isStored = SHA256.test(sha256) && blobs.has(sha256);
    if (isStored && (await tasks.hasModule(onlyNamespaceOf(caller), sha256))) return blobs.read(sha256);
    throw new TaskError('no_module', 'there is no such module');
  }

  /** Whether the caller may use a digest. A denied digest is reported like one that is not stored. */
  async #mayUse(sha256: string, caller: TaskCaller): Promise<boolean> {
    const { tasks, blobs } = this.#deps;
    if (!blobs.has(sha256)) return false;
    const only = onlyNamespaceOf(caller);
    return only === null || blobs.isUploadedBy(only, sha256) || (await tasks.hasModule(only, sha256));
  }

  async #admit(given: unknown, caller: TaskCaller): Promise<TaskContent> {
    const { blobs, admission } = this.#deps;
    if (this.#waiting >= MAX_ADMISSIONS) throw new TaskError('busy', 'too many tasks are being applied; try again');
    const module = async (wasm: string) => {
      const sha256 = SHA256.exec(wasm)?.[1];
      if (sha256 === undefined) throw new TaskError('invalid', 'wasm: expected sha256: and 64 hex digits');
      if (!(await this.#mayUse(sha256, caller))) {
        throw new TaskError('invalid', `wasm: module ${sha256} is not stored; PUT /admin/api/blobs/${sha256} first`);
      }
      return { bytes: await blobs.read(sha256), sha256 };
    };
    const admit = async () => {
      // Loaded on first use: validating modules needs a large part of the runtime.
      const { admitTask } = await import('../tasks/admit-task.ts');
      return (await admitTask('task', given, module, admission)).content;
    };
    this.#waiting += 1;
    const admitting = this.#admitting.then(admit, admit);
    this.#admitting = admitting.catch(() => {});
    try {
      return await admitting;
    } finally {
      this.#waiting -= 1;
    }
  }
}

const MASK = '********';

/** JSON of a task in API responses. */
export const shownTask = z.object({
  namespace: z.string(),
  name: z.string(),
  live: z.int().meta({ description: 'the revision that new runs use' }),
  revisions: z.int(),
  wasm: z.string().meta({ description: 'sha256 of the module of the live revision' }),
  digest: z.string().meta({ description: 'sha256 of the content of the live revision' }),
  description: z.string(),
  pool: z.string(),
  from: z
    .string()
    .nullable()
    .meta({ description: 'the file that defines the task; null if the task was applied through the API' }),
  created_at_ms: z.int(),
  created_by: z.string(),
});
export type ShownTask = z.infer<typeof shownTask>;

export const shownTasks = z.object({ tasks: z.array(shownTask) });

export function taskJson({ namespace, name, live, revisions, fromFile }: Task): ShownTask {
  const { revision, wasm, digest, description, pool, created_at_ms, created_by } = live;
  return {
    ...{ namespace, name, live: revision, revisions, wasm, digest, description, pool },
    ...{ from: fromFile, created_at_ms, created_by },
  };
}

/** Shows the names of environment variables and masks their values, which may be secrets. */
export const maskedRevision = (revision: TaskRevision): TaskRevision => ({
  ...revision,
  env: Object.fromEntries(Object.keys(revision.env).map((name) => [name, MASK])),
});
