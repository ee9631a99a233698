import type { NodeFiles } from '../config/node/paths.ts';
import type { SmsPlatform } from '../run/open-sms.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { hasEnded, runStatuses } from '../server/records/run.ts';
import type { TaskRevision } from '../server/records/task.ts';
import { TaskRequests } from '../server/routes/task-requests.ts';
import type { Admission } from '../server/tasks/admit-task.ts';
import { Blobs } from '../server/tasks/blobs.ts';
import type { NamedTask } from '../server/tasks/task-book.ts';
import { loadTaskDirectory } from '../server/tasks/task-directory.ts';
import { FollowedTasks } from './followed-tasks.ts';
import { TaskStore } from './task-store.ts';

export interface NodeTasksOptions {
  readonly files: NodeFiles;
  /** A directory of task files; null: there is none. */
  readonly directory: string | null;
  /** The registry of this node; null: it has none. Its tasks are those of the node where no directory is given. */
  readonly platform: SmsPlatform | null;
  /** How long to wait for the first tasks of a registry. */
  readonly firstTasksMs: number;
  readonly admission: Admission;
  readonly queue: Pick<RunQueue, 'list'>;
  readonly log: ServiceLog;
  /** Called after the registry changed the tasks. @default nothing is called */
  readonly onChange?: (() => void) | undefined;
}

/** The tasks of a node: of a directory and of what is applied here, or of its registry alone. */
export interface NodeTasks {
  readonly store: TaskStore;
  readonly requests: TaskRequests;
  /** Where they are changed instead; null: here. */
  readonly elsewhere: string | null;
  /** What a run was submitted with; null: nobody has it any more. */
  revision(named: NamedTask, revision: number): Promise<TaskRevision | null>;
  module(sha256: string): Promise<Uint8Array>;
  /** Why a task of the registry may be unknown here; null: the list of tasks is complete. */
  notLoaded(): string | null;
  /** Reads the directory again, where there is one: what is wrong with its files. */
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
    // One load at a time: the last one has the last word.
    let loading: Promise<readonly string[]> = Promise.resolve([]);
    const load = async () => {
      if (directory === null) return [];
      const { changed, problems } = await loadTaskDirectory(directory, { tasks: store, blobs, admission });
      for (const problem of problems) log('error', 'task_refused', { problem });
      for (const { task, outcome } of changed) log('info', 'task', { task, outcome });
      return problems;
    };
    return {
      ...{ store, requests, elsewhere: null },
      revision: async (named, revision) => store.revision(named, revision),
      module: (sha256) => blobs.read(sha256),
      notLoaded: () => null,
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
  { admission, queue, firstTasksMs, log, onChange }: NodeTasksOptions,
  platform: SmsPlatform,
  { store, blobs, requests }: Parts,
): Promise<NodeTasks> {
  const port = platform.tasks((id, { path, message }) =>
    log('error', 'task_refused', { problem: `${id}: ${path} ${message}` }),
  );
  const isPinned = (named: NamedTask, revision: number) => hasUnfinishedRun(queue, named, revision);
  const followed = new FollowedTasks({ port, store, blobs, admission, isPinned, log, onChange });
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
