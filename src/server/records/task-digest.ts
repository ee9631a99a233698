import { hash } from 'node:crypto';
import { canonicalJson, type JsonObject } from '../../base/json.ts';
import type { TaskContent } from './task.ts';

/** What the content of a task is known by: of the same content it is the same. A revision may be given too. */
export function taskDigest(task: TaskContent): string {
  return hash('sha256', taskContentText(task));
}

/** The content as text, one for each content. */
export function taskContentText(task: TaskContent): string {
  return canonicalJson(taskContent(task) as unknown as JsonObject);
}

/** Without what a revision has beyond its content. */
export function taskContent(task: TaskContent): TaskContent {
  const { namespace, name, wasm, description, args, env, backend, pool, isolation, concurrency } = task;
  const { config, limits, retry, budgets } = task;
  return {
    ...{ namespace, name, wasm, description, args, env, backend, pool, isolation, concurrency },
    ...{ config, limits, retry, budgets },
  };
}
