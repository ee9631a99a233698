import { componentCacheDirectory } from '../../config/directories.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import type { RegistryConfig } from '../../config/registry/registry-config.ts';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { contentSizeProblem, type TaskRecord } from '../../server/records/task.ts';
import { TaskRequests } from '../../server/routes/task-requests.ts';
import type { RegistryDatabase } from '../../server/store/store.ts';
import { Blobs } from '../../server/tasks/blobs.ts';
import { type AuditedStore, auditedTasks } from '../audit/audited-store.ts';
import { SmsTasks } from './sms-tasks.ts';
import { TaskSweep } from './task-sweep.ts';

export interface OpenSmsTasks {
  readonly book: SmsTasks;
  readonly store: AuditedStore<TaskRecord>;
  readonly blobs: Blobs;
  readonly requests: TaskRequests;
  readonly sweep: TaskSweep;
  /** Reads the directory of task files, where there is one: what was wrong with them. */
  load(caller: Caller): Promise<readonly string[]>;
  close(): Promise<void>;
}

export function openSmsTasks(
  { files, limits, taskDir }: Pick<RegistryConfig, 'files' | 'limits' | 'taskDir'>,
  stores: Pick<RegistryDatabase, 'tasks' | 'taskRevisions'>,
  trail: SmsTrail,
  log: ServiceLog,
): OpenSmsTasks {
  // Which models a node has, and which pool it is of, is its own to say.
  const admission = { backends: null, pool: null, componentCache: componentCacheDirectory(processEnvironment) };
  const store = auditedTasks(stores.tasks, trail);
  const revisions = stores.taskRevisions;
  const blobs = new Blobs(files.blobs, limits.max_blob_bytes);
  const { max_tasks: maxTasks, kept_task_revisions: keptRevisions } = limits;
  const book = new SmsTasks({ tasks: store, revisions, maxTasks, keptRevisions });
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
