import type { Caller } from '../../server/identity/caller.ts';
import {
  revisionId,
  type TaskContent,
  type TaskRecord,
  type TaskRevision,
  type TaskRevisionRecord,
  taskContent,
  taskDigest,
  taskId,
} from '../../server/records/task.ts';
import { MAX_TRIES } from '../../server/store/record-write.ts';
import { type RegistryStore, StoreError, wasOvertaken } from '../../server/store/store.ts';
import {
  type AppliedTask,
  type NamedTask,
  type Task,
  type TaskBook,
  TaskError,
  unknownRevision,
  unknownTask,
} from '../../server/tasks/task-book.ts';
import type { AuditedStore } from '../audit/audited-store.ts';

export interface RegistryTasksDeps {
  /** What there is and which revision is live. */
  readonly tasks: AuditedStore<TaskRecord>;
  /** Every revision that is kept, apart: nodes follow what is live. */
  readonly revisions: RegistryStore<TaskRevisionRecord>;
  /** Those that were removed count too, as long as anything is left of them. */
  readonly maxTasks: number;
  /** Of one task; the oldest go first, never the live one. */
  readonly keptRevisions: number;
}

/**
 * The tasks of a registry. A revision is written before the task that points to it: one that nobody points to yet is
 * found again by its content.
 */
export class RegistryTasks implements TaskBook {
  readonly #deps: RegistryTasksDeps;

  constructor(deps: RegistryTasksDeps) {
    this.#deps = deps;
  }

  async list(namespace: string | null): Promise<readonly Task[]> {
    const { records } = await this.#deps.tasks.list();
    return records.flatMap((record) =>
      namespace === null || record.namespace === namespace ? (toTask(record) ?? []) : [],
    );
  }

  async find(named: NamedTask): Promise<Task | null> {
    const record = await this.#deps.tasks.get(taskId(named));
    return record && toTask(record);
  }

  async revisions(named: NamedTask): Promise<readonly TaskRevision[]> {
    return this.#kept(taskId(named), (await this.#deps.tasks.get(taskId(named)))?.last_revision ?? 0);
  }

  /** Live or not, also of a task that was removed, as long as it is kept. */
  async revision(named: NamedTask, revision: number): Promise<TaskRevision | null> {
    return this.#deps.revisions.get(revisionId(taskId(named), revision));
  }

  async hasModule(namespace: string | null, sha256: string): Promise<boolean> {
    const { records } = await this.#deps.revisions.list();
    return records.some((record) => (namespace === null || record.namespace === namespace) && record.wasm === sha256);
  }

  async apply(content: TaskContent, by: string, fromFile: string | null, caller: Caller): Promise<AppliedTask> {
    const digest = taskDigest(content);
    return this.#writing(async () => {
      const before = await this.#deps.tasks.get(taskId(content));
      if (before === null) await this.#ensureRoom();
      const live = await this.#storedRevision(content, digest, by, before?.last_revision ?? 0);
      const task = await this.#point(caller, before, live, { from_file: fromFile, file_digest: fromFile && digest });
      await this.#forgetOldest(task);
      const was = before?.live ?? null;
      return { task, outcome: was === null ? 'created' : was.digest === digest ? 'unchanged' : 'updated' };
    });
  }

  async promote(named: NamedTask, revision: number, caller: Caller): Promise<Task> {
    return this.#writing(async () => {
      const before = await this.#deps.tasks.get(taskId(named));
      if (before === null || before.live === null) throw unknownTask(named);
      const stored = await this.#deps.revisions.get(revisionId(before.task_id, revision));
      if (stored === null) throw unknownRevision(named, revision);
      return this.#point(caller, before, withoutStamps(stored), before);
    });
  }

  async remove(named: NamedTask, caller: Caller): Promise<void> {
    await this.#writing(async () => {
      const before = await this.#deps.tasks.get(taskId(named));
      if (before === null || before.live === null) throw unknownTask(named);
      const gone = { ...before, live: null, from_file: null, file_digest: null };
      await this.#deps.tasks.as(caller).upsert(gone, { ifModRevision: before.mod_revision });
    });
  }

  /** Everything that is kept of a task, the newest first. */
  async #kept(id: string, last: number): Promise<TaskRevision[]> {
    const found: TaskRevision[] = [];
    for (let number = last; number > 0 && number > last - this.#deps.keptRevisions * 2; number--) {
      const stored = await this.#deps.revisions.get(revisionId(id, number));
      if (stored !== null) found.push(withoutStamps(stored));
    }
    const live = (await this.#deps.tasks.get(id))?.live ?? null;
    if (live !== null && !found.some(({ revision }) => revision === live.revision)) found.push(live);
    return found;
  }

  /** The revision of this content: the one that there is, or a new one. */
  async #storedRevision(content: TaskContent, digest: string, by: string, last: number): Promise<TaskRevision> {
    const id = taskId(content);
    const known = (await this.#kept(id, last)).find((one) => one.digest === digest);
    if (known !== undefined) return known;
    for (let number = last + 1; ; number++) {
      const there = await this.#deps.revisions.get(revisionId(id, number));
      if (there !== null) {
        // Somebody wrote it and was stopped before its task pointed to it, or is about to do so.
        if (there.digest === digest) return withoutStamps(there);
        continue;
      }
      const revision = { ...taskContent(content), revision: number, digest, created_at_ms: Date.now(), created_by: by };
      const record = { ...revision, revision_id: revisionId(id, number), updated_at_ms: 0, mod_revision: 0 };
      await this.#deps.revisions.upsert(record, { ifModRevision: 0 });
      return revision;
    }
  }

  async #point(
    caller: Caller,
    before: TaskRecord | null,
    live: TaskRevision,
    file: Pick<TaskRecord, 'from_file' | 'file_digest'>,
  ): Promise<Task> {
    const { namespace, name } = live;
    const record: TaskRecord = {
      ...{ task_id: taskId(live), namespace, name, live },
      last_revision: Math.max(before?.last_revision ?? 0, live.revision),
      ...{ from_file: file.from_file, file_digest: file.file_digest },
      ...{ updated_at_ms: 0, mod_revision: 0 },
    };
    const { record: stored } = await this.#deps.tasks
      .as(caller)
      .upsert(record, { ifModRevision: before?.mod_revision ?? 0 });
    const task = toTask(stored);
    if (task === null) throw unknownTask(live);
    return task;
  }

  async #forgetOldest({ live, revisions: last, ...named }: Task): Promise<void> {
    const { keptRevisions, revisions } = this.#deps;
    for (let number = last - keptRevisions; number > 0; number--) {
      const id = revisionId(taskId(named), number);
      if (number === live.revision) continue;
      if ((await revisions.get(id)) === null) return;
      await revisions.remove(id).catch(ignoreOvertaken);
    }
  }

  async #ensureRoom(): Promise<void> {
    const { records } = await this.#deps.tasks.list();
    if (records.length < this.#deps.maxTasks) return;
    throw new TaskError(
      'not_stored',
      `there are already ${records.length} tasks, the maximum (limits.max_tasks); remove some`,
    );
  }

  /** Again where somebody else was faster: what is written was made from the very record that it replaces. */
  async #writing<T>(work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (error instanceof StoreError && error.code === 'not_stored')
          throw new TaskError('not_stored', error.message);
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }
}

function toTask({ namespace, name, live, last_revision, from_file, file_digest }: TaskRecord): Task | null {
  if (live === null) return null;
  return { namespace, name, live, revisions: last_revision, fromFile: from_file, fileDigest: file_digest };
}

function withoutStamps({ revision_id: _, updated_at_ms: __, mod_revision: ___, ...revision }: TaskRevisionRecord) {
  return revision;
}

function ignoreOvertaken(error: unknown): void {
  if (!wasOvertaken(error)) throw error;
}
