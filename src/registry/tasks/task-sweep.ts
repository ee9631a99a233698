import { errorText } from '../../base/errors.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { type TaskRecord, type TaskRevisionRecord, taskId } from '../../server/records/task.ts';
import { type RegistryStore, type StoreReader, wasOvertaken } from '../../server/store/store.ts';
import type { Blobs } from '../../server/tasks/blobs.ts';

/** Nobody waits for room that is made a few minutes later. */
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
