import type { JsonObject } from '../base/json.ts';
import type { TaskRevision } from '../server/records/task.ts';
import { get } from './api.ts';

/** A task as the matrix asks about it. */
export interface AskedTask {
  readonly name: string;
  readonly config: JsonObject;
}

/** Some of the tasks that the registry keeps, as their live revisions are. */
export interface TaskPage {
  readonly tasks: readonly AskedTask[];
  readonly from: number;
  readonly all: number;
}

/** As many as the registry answers about at once. */
export const TASKS_PER_PAGE = 20;

const PATH = '/admin/api/tasks';

interface ListedTask {
  readonly namespace: string;
  readonly name: string;
  readonly live: number;
}

export async function registryTasks(from: number): Promise<TaskPage> {
  const { tasks: listed } = await get<{ tasks: readonly ListedTask[] }>(PATH);
  const tasks = await Promise.all(listed.slice(from, from + TASKS_PER_PAGE).map(asked));
  return { tasks, from, all: listed.length };
}

async function asked({ namespace, name, live }: ListedTask): Promise<AskedTask> {
  const { all } = await get<{ all: readonly TaskRevision[] }>(`${PATH}/${namespace}/${name}`);
  const { config = {} } = all.find(({ revision }) => revision === live) ?? {};
  return { name: `${namespace}/${name}@${live}`, config: { namespace, config } };
}
