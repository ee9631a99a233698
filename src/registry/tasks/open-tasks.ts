import { errorText } from '../../base/errors.ts';
import { componentCacheDirectory } from '../../config/directories.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import type { RegistryConfig } from '../../config/registry/registry-config.ts';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { contentSizeProblem, type TaskRecord, type TaskRevisionRecord, taskId } from '../../server/records/task.ts';
import { TaskRequests } from '../../server/routes/task-requests.ts';
import { type RegistryDatabase, type RegistryStore, type StoreReader, wasOvertaken } from '../../server/store/store.ts';
import { Blobs } from '../../server/tasks/blobs.ts';
import { type AuditedStore, auditedTasks } from '../audit/audited-store.ts';
import { RegistryTasks } from './registry-tasks.ts';

export interface OpenRegistryTasks {
  readonly book: RegistryTasks;
  readonly store: AuditedStore<TaskRecord>;
  readonly blobs: Blobs;
  readonly requests: TaskRequests;
  readonly sweep: TaskSweep;
  /** Reads the directory of task files, where there is one: what was wrong with them. */
  load(caller: Caller): Promise<readonly string[]>;
  close(): Promise<void>;
}

export function openRegistryTasks(
  { files, limits, taskDir }: Pick<RegistryConfig, 'files' | 'limits' | 'taskDir'>,
  stores: Pick<RegistryDatabase, 'tasks' | 'taskRevisions'>,
  trail: SmsTrail,
  log: ServiceLog,
): OpenRegistryTasks {
  // Which models a node has, and which pool it is of, is its own to say.
  const admission = { backends: null, pool: null, componentCache: componentCacheDirectory(processEnvironment) };
  const store = auditedTasks(stores.tasks, trail);
  const revisions = stores.taskRevisions;
  const blobs = new Blobs(files.blobs, limits.max_blob_bytes);
  const { max_tasks: maxTasks, kept_task_revisions: keptRevisions } = limits;
  const book = new RegistryTasks({ tasks: store, revisions, maxTasks, keptRevisions });
  const sweep = new TaskSweep({
    ...{ tasks: store, revisions, blobs, log },
    keepMs: limits.removed_task_keep_ms,
    graceMs: limits.unused_blob_keep_ms,
  });
  // One load at a time: the last one has the last word.
  let loading: Promise<readonly string[]> = Promise.resolve([]);
  const load = async (caller: Caller) => {
    if (taskDir === null) return [];
    const { loadTaskDirectory } = await import('../../server/tasks/task-directory.ts');
    const { changed, problems } = await loadTaskDirectory(caller, taskDir, { tasks: book, blobs, admission });
    for (const problem of problems) log('error', 'task_refused', { problem });
    for (const { task, outcome } of changed) log('info', 'task', { task, outcome });
    return problems;
  };
  return {
    ...{ book, store, blobs, sweep },
    requests: new TaskRequests({ tasks: book, blobs, admission, refuse: contentSizeProblem }),
    load(caller) {
      const next = () => load(caller);
      loading = loading.then(next, next);
      return loading;
    },
    close: () => sweep.close(),
  };
}

/** The sweep may be late: no write waits for the freed space. */
const SWEEP_EVERY_MS = 10 * 60_000;

export interface TaskSweepDeps {
  readonly tasks: StoreReader<TaskRecord>;
  readonly revisions: RegistryStore<TaskRevisionRecord>;
  readonly blobs: Blobs;
  /** How long revisions of a task that was removed are kept. */
  readonly keepMs: number;
  /** How long a module may be there that no revision has: its task comes after it. */
  readonly graceMs: number;
  readonly log: ServiceLog;
}

/** Forgets what nothing refers to any more: revisions of tasks that are gone, then modules that no revision has. */
export class TaskSweep {
  readonly #deps: TaskSweepDeps;
  readonly #timer: NodeJS.Timeout;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(deps: TaskSweepDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.sweep(Date.now()), SWEEP_EVERY_MS);
    this.#timer.unref();
  }

  /** Never rejects. */
  sweep(now: number): Promise<void> {
    this.#sweeping = this.#sweeping.then(() => this.#sweep(now));
    return this.#sweeping;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
  }

  async #sweep(now: number): Promise<void> {
    const { blobs, graceMs, log } = this.#deps;
    try {
      await this.#forgetRevisions(now);
      const used = await this.#usedModules();
      const unused = blobs.list().filter(({ sha256, putAtMs }) => putAtMs < now - graceMs && !used.has(sha256));
      for (const { sha256 } of unused) blobs.remove(sha256);
      blobs.removeStale(now - graceMs);
      if (unused.length > 0) log('info', 'modules_removed', { modules: unused.length });
    } catch (error) {
      log('warn', 'modules_not_swept', { message: errorText(error) });
    }
  }

  async #usedModules(): Promise<Set<string>> {
    const { tasks, revisions } = this.#deps;
    const [current, all] = await Promise.all([tasks.list(), revisions.list()]);
    return new Set([
      ...all.records.map(({ wasm }) => wasm),
      ...current.records.flatMap(({ live }) => (live === null ? [] : [live.wasm])),
    ]);
  }

  async #forgetRevisions(now: number): Promise<void> {
    const { tasks, revisions, keepMs } = this.#deps;
    const removed = new Set(
      (await tasks.list()).records
        .filter(({ live, updated_at_ms }) => live === null && updated_at_ms < now - keepMs)
        .map(({ task_id }) => task_id),
    );
    if (removed.size === 0) return;
    for (const record of (await revisions.list()).records) {
      if (!removed.has(taskId(record))) continue;
      await revisions.remove(record.revision_id, { ifModRevision: record.mod_revision }).catch((error: unknown) => {
        if (!wasOvertaken(error)) throw error;
      });
    }
  }
}
