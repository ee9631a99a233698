import { z } from 'zod';
import type { TaskRevision } from '../records/task.ts';
import type { Task } from './task-book.ts';

const MASK = '********';

/** A task as an API shows it. */
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

/** Names of variables are shown, values may be somebody's secrets in the wrong place. */
export const maskedRevision = (revision: TaskRevision): TaskRevision => ({
  ...revision,
  env: Object.fromEntries(Object.keys(revision.env).map((name) => [name, MASK])),
});
