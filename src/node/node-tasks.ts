import { hash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../base/errors.ts';
import { Listeners } from '../base/listeners.ts';
import { type Backoff, backoffMs } from '../base/timing.ts';
import type { NodeFiles } from '../config/directories.ts';
import { KindCache } from '../registry-client/kind-cache.ts';
import type { TaskPort } from '../registry-client/ports.ts';
import type { RegistryChange } from '../registry-client/snapshot.ts';
import type { SmsPlatform } from '../run/open-registry.ts';
import { limitSpecs } from '../runtime/port/limits.ts';
import { Caller } from '../server/identity/caller.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { hasEnded, runStatuses } from '../server/records/run.ts';
import { type TaskRecord, type TaskRevision, taskId, taskKind } from '../server/records/task.ts';
import { TaskRequests } from '../server/routes/task-requests.ts';
import { type Admission, placementProblem } from '../server/tasks/admit-task.ts';
import { Blobs } from '../server/tasks/blobs.ts';
import type { NamedTask } from '../server/tasks/task-book.ts';
import { loadTaskDirectory } from '../server/tasks/task-directory.ts';
import { TaskStore } from './task-store.ts';

export interface NodeTasksOptions {
  readonly files: NodeFiles;
  /** Directory of task files; null: none. */
  readonly directory: string | null;
  /** The registry of this node, which provides the tasks if there is no directory; null: none. */
  readonly platform: SmsPlatform | null;
  /** Deadline for the first list of tasks. */
  readonly firstTasksMs: number;
  readonly admission: Admission;
  readonly queue: Pick<RunQueue, 'list'>;
  readonly log: ServiceLog;
}

/** The tasks of a node: from a directory and the API, or from its registry only. */
export interface NodeTasks {
  readonly store: TaskStore;
  readonly requests: TaskRequests;
  /** Message that says where tasks are changed instead; null: on this node. */
  readonly elsewhere: string | null;
  /** The revision of a run; null: no longer stored anywhere. */
  revision(named: NamedTask, revision: number): Promise<TaskRevision | null>;
  module(sha256: string): Promise<Uint8Array>;
  /** Why a task of the registry may be unknown here; null: the list of tasks is complete. */
  notLoaded(): string | null;
  /** Notifies after the registry changed the tasks. */
  onChange(listener: () => void): void;
  /** Reloads the directory, if there is one, and returns the problems of its files. */
  load(): Promise<readonly string[]>;
  close(): Promise<void>;
}

const PINNED_PAGE = 500;

export async function openNodeTasks(options: NodeTasksOptions): Promise<NodeTasks> {
  const { files, directory, platform, admission, log } = options;
  const store = new TaskStore(files.tasks);
  try {
    const blobs = new Blobs(files.blobs);
    const requests = new TaskRequests({ tasks: store, blobs, admission });
    if (platform !== null && directory === null) return await ofRegistry(options, platform, { store, blobs, requests });
    // One load at a time, in order.
    let loading: Promise<readonly string[]> = Promise.resolve([]);
    const load = async () => {
      if (directory === null) return [];
      const { changed, problems } = await loadTaskDirectory(Caller.process('task directory'), directory, {
        tasks: store,
        blobs,
        admission,
      });
      for (const problem of problems) log('error', 'task_refused', { problem });
      for (const { task, outcome } of changed) log('info', 'task', { task, outcome });
      return problems;
    };
    return {
      ...{ store, requests, elsewhere: null },
      revision: async (named, revision) => store.revision(named, revision),
      module: (sha256) => blobs.read(sha256),
      notLoaded: () => null,
      onChange: () => {},
      load() {
        loading = loading.then(load, load);
        return loading;
      },
      close: async () => store.close(),
    };
  } catch (error) {
    store.close();
    throw error;
  }
}

interface Parts {
  readonly store: TaskStore;
  readonly blobs: Blobs;
  readonly requests: TaskRequests;
}

async function ofRegistry(
  { admission, queue, firstTasksMs, log }: NodeTasksOptions,
  platform: SmsPlatform,
  { store, blobs, requests }: Parts,
): Promise<NodeTasks> {
  const port = platform.tasks((id, { path, message }) =>
    log('error', 'task_refused', { problem: `${id}: ${path} ${message}` }),
  );
  const isPinned = (named: NamedTask, revision: number) => hasUnfinishedRun(queue, named, revision);
  const followed = new FollowedTasks({ port, store, blobs, admission, isPinned, log });
  const problem = () => followed.problem ?? `no response within ${firstTasksMs} ms (mcp.first_snapshot_ms)`;
  if (!(await followed.open(firstTasksMs))) {
    const message = `cannot load tasks from the registry; using the ${store.list(null).length} tasks stored on this node: ${problem()}`;
    log('warn', 'tasks_not_followed', { message });
  }
  return {
    ...{ store, requests },
    elsewhere: `this node loads its tasks from the registry at ${platform.address}; change them there (spear tasks --sms)`,
    revision: (named, revision) => followed.revision(named, revision),
    module: (sha256) => followed.module(sha256),
    notLoaded: () => (followed.isLoaded ? null : `the registry has not sent its tasks yet: ${problem()}`),
    onChange: (listener) => void followed.onChange(listener),
    load: async () => [],
    close: async () => {
      await followed.close();
      store.close();
    },
  };
}

async function hasUnfinishedRun(
  queue: Pick<RunQueue, 'list'>,
  { namespace, name }: NamedTask,
  revision: number,
): Promise<boolean> {
  for (const status of runStatuses.filter((one) => !hasEnded(one))) {
    for (let cursor: string | undefined; ; ) {
      const page = await queue.list(namespace, { task: name, status, limit: PINNED_PAGE, cursor });
      if (page.runs.some((run) => run.revision === revision)) return true;
      if (page.cursor === null) break;
      cursor = page.cursor;
    }
  }
  return false;
}

export interface FollowedTasksOptions {
  readonly port: TaskPort;
  readonly store: TaskStore;
  readonly blobs: Blobs;
  readonly admission: Pick<Admission, 'backends' | 'pool'>;
  /** Whether a run that has not ended was submitted with this revision. */
  readonly isPinned: (named: NamedTask, revision: number) => Promise<boolean>;
  readonly log: ServiceLog;
}

const MODULE_MS = 120_000;
const PREFETCH_RETRY_MS = 5_000;
const FETCH_BACKOFF: Backoff = { firstMs: 200, maxMs: 10_000 };
/** Then the run returns to the queue. */
const FETCH_TRIES = 12;

/**
 * Follows the tasks of a registry. The node stores them, so it starts and runs tasks while the registry is unreachable.
 * Modules of live revisions are prefetched; a run fetches a missing module at its start.
 *
 * - Changes are applied one after the other, in the order of the registry.
 * - A live revision that this node cannot run removes the task: an outdated revision must not run instead.
 * - A revision number that exists here with other content is replaced only if no unfinished run uses it.
 */
export class FollowedTasks {
  readonly #options: FollowedTasksOptions;
  readonly #cache: KindCache<TaskRecord>;
  readonly #ended = new AbortController();
  readonly #changes = new Listeners<void>();
  readonly #fetching = new Map<string, Promise<Uint8Array>>();
  #applying: Promise<void> = Promise.resolve();
  #isFirst = true;
  #isLoaded = false;

  constructor(options: FollowedTasksOptions) {
    this.#options = options;
    this.#cache = new KindCache({ kind: taskKind, source: options.port });
    this.#cache.onChange((change) => {
      this.#applying = this.#applying
        .then(() => this.#apply(change))
        .then(() => {
          this.#isLoaded = true;
          this.#changes.notify();
        });
    });
    this.#cache.onStatus(({ state, lastError }) => {
      if (state === 'degraded' || state === 'refused') {
        options.log('warn', 'tasks_not_followed', { state, message: lastError ?? '', kept: true });
      }
    });
  }

  onChange(listener: () => void): () => void {
    return this.#changes.add(listener);
  }

  /** Waits for the first list. False: it did not arrive in time, and the stored tasks are used. */
  async open(deadlineMs: number): Promise<boolean> {
    this.#cache.start();
    const isThere = await this.#cache.ready(deadlineMs);
    await this.#applying;
    void this.#prefetch();
    return isThere;
  }

  /** Whether the registry has sent its list since the node started. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** Last error of the connection; null: none. */
  get problem(): string | null {
    return this.#cache.status().lastError;
  }

  /** The bytes of a module, stored or fetched from the registry. */
  async module(sha256: string): Promise<Uint8Array> {
    if (this.#options.blobs.has(sha256)) return this.#options.blobs.read(sha256);
    for (let tries = 1; ; tries++) {
      try {
        return await this.#fetch(sha256);
      } catch (error) {
        if (tries >= FETCH_TRIES || this.#ended.signal.aborted) throw error;
        await this.#pause(backoffMs(FETCH_BACKOFF, tries, Math));
      }
    }
  }

  /** Null: neither this node nor the registry has the revision. */
  async revision(named: NamedTask, revision: number): Promise<TaskRevision | null> {
    const known = this.#options.store.revision(named, revision);
    if (known !== null) return known;
    const found = await this.#options.port.revision(taskId(named), revision, AbortSignal.timeout(MODULE_MS));
    if (found !== null) this.#options.store.keep(found);
    return found;
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#cache.close();
    await this.#applying;
    await Promise.allSettled(this.#fetching.values());
  }

  async #apply({ snapshot, upserted, deleted }: RegistryChange<TaskRecord>): Promise<void> {
    const { store, log } = this.#options;
    try {
      const unknown = this.#isFirst
        ? store
            .list(null)
            .map(taskId)
            .filter((id) => !snapshot.records.has(id))
        : [];
      this.#isFirst = false;
      for (const id of [...deleted, ...unknown]) this.#drop(id);
      for (const id of upserted) {
        const record = snapshot.records.get(id);
        if (record?.live == null) this.#drop(id);
        else await this.#adopt(record, record.live);
      }
      void this.#prefetch();
    } catch (error) {
      log('error', 'task_not_taken', { message: errorText(error) });
    }
  }

  /** Makes the revision live, or removes the task if this node cannot run it. */
  async #adopt(record: TaskRecord, live: TaskRevision): Promise<void> {
    const { store, admission, isPinned, log } = this.#options;
    const refused = placementProblem(live, admission);
    if (refused !== null) {
      this.#drop(record.task_id);
      log('warn', 'task_refused', { problem: `${record.task_id}@${live.revision}: ${refused}` });
      return;
    }
    const known = store.revision(live, live.revision);
    if (known !== null && known.digest !== live.digest) {
      if (await isPinned(live, live.revision)) {
        this.#drop(record.task_id);
        const why =
          'unfinished runs use a different revision with this number; the task becomes available with its next revision';
        log('error', 'task_refused', { problem: `${record.task_id}@${live.revision}: ${why}` });
        return;
      }
      store.forget(live, live.revision);
    }
    store.adopt(live, record.from_file);
    log('info', 'task', { task: record.task_id, revision: live.revision, outcome: 'live' });
  }

  #drop(id: string): void {
    const [namespace = '', name = ''] = id.split('/');
    if (this.#options.store.find({ namespace, name }) === null) return;
    this.#options.store.remove({ namespace, name });
    this.#options.log('info', 'task', { task: id, outcome: 'removed' });
  }

  /** Fetches the modules of live revisions before the first run needs them. */
  async #prefetch(): Promise<void> {
    const { store, blobs, log } = this.#options;
    const { signal } = this.#ended;
    let failed = false;
    while (!signal.aborted) {
      const wanted = new Set(store.list(null).map(({ live }) => live.wasm));
      const missing = [...wanted].filter((sha256) => !blobs.has(sha256) && !this.#fetching.has(sha256));
      let isWhole = true;
      for (const sha256 of missing) {
        await this.#fetch(sha256).catch((error: unknown) => {
          isWhole = false;
          if (!failed && !signal.aborted) log('warn', 'module_not_fetched', { sha256, message: errorText(error) });
          failed = true;
        });
      }
      if (isWhole) return;
      await this.#pause(PREFETCH_RETRY_MS);
    }
  }

  #fetch(sha256: string): Promise<Uint8Array> {
    const fetching = this.#fetching.get(sha256) ?? this.#download(sha256);
    this.#fetching.set(sha256, fetching);
    const over = () => this.#fetching.delete(sha256);
    fetching.then(over, over);
    return fetching;
  }

  async #download(sha256: string): Promise<Uint8Array> {
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(MODULE_MS)]);
    const bytes = await this.#options.port.module(sha256, limitSpecs.module_bytes.max, signal);
    const found = hash('sha256', bytes);
    if (found !== sha256) throw new Error(`the registry sent a module with sha256 ${found} instead of ${sha256}`);
    await this.#options.blobs.put(bytes);
    return bytes;
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#ended.signal }).catch(() => {});
  }
}
