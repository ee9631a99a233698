import { hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { ConfigError } from '../../config/config-error.ts';
import { parseTask } from '../../config/task-config.ts';
import { checkTaskRecord } from '../../config/task-document.ts';
import { DEFAULT_NAMESPACE } from '../../runtime/port/policy-layers.ts';
import { TASKS_PATH } from '../../server/routes/task-requests.ts';
import { RequestError } from '../api-client.ts';
import type { Run } from '../command-table.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { age, fieldsText, printable, table } from '../formatting.ts';
import { bounded } from '../say.ts';
import { type Side, type SideFlags, taskSide } from './side.ts';

/** Long, because a component is compiled before it is accepted. */
const APPLY_TIMEOUT_MS = 120_000;
const TASK_FILE = /\.(?:toml|json)$/;

interface ShownTask {
  readonly namespace: string;
  readonly name: string;
  readonly live: number;
  readonly revisions: number;
  readonly wasm: string;
  readonly description: string;
  readonly from: string | null;
  readonly created_at_ms: number;
  readonly created_by: string;
  readonly outcome?: string;
  readonly all?: readonly {
    readonly revision: number;
    readonly wasm: string;
    readonly created_at_ms: number;
    readonly created_by: string;
  }[];
}

interface TasksFlags extends SideFlags {
  readonly json: boolean;
}

interface TaskCall extends Side {
  readonly args: readonly string[];
  readonly json: boolean;
}

const onTasks =
  (act: (call: TaskCall) => Promise<void>): Run<TasksFlags> =>
  async ({ flags, args }) => {
    await act({ ...taskSide(flags), args, json: flags.json });
    return spearExitCodes.ok;
  };

export const applyTasks = onTasks(async ({ client, args, json }) => {
  // Read every file before sending any.
  const read = [];
  for (const file of args.flatMap(filesOf)) read.push(await readTask(file));
  const applied: ShownTask[] = [];
  for (const { document, bytes, sha256, file } of read) {
    const path = taskPath(document.namespace ?? DEFAULT_NAMESPACE, document.name);
    const body = JSON.stringify({ ...document, wasm: `sha256:${sha256}` });
    try {
      await client.json('PUT', `/admin/api/blobs/${sha256}`, {
        body: bytes,
        contentType: 'application/wasm',
      });
      applied.push(
        (await client.json('PUT', path, {
          body,
          contentType: 'application/json',
          timeoutMs: APPLY_TIMEOUT_MS,
        })) as unknown as ShownTask,
      );
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      throw new RequestError(`${file}: ${error.message}`, error.exitCode, error.status);
    }
  }
  if (json) print(`${JSON.stringify({ tasks: applied })}\n`);
  else
    for (const line of bounded(applied.map((task) => `${task.namespace}/${task.name}@${task.live} ${task.outcome}`)))
      print(printable(line), '\n');
});

export const listTasks = onTasks(async ({ client, json }) => {
  const value = await client.json('GET', TASKS_PATH);
  if (json) return print(`${JSON.stringify(value)}\n`);
  const { tasks } = value as unknown as { tasks: readonly ShownTask[] };
  const rows = tasks.map((task) => [
    `${task.namespace}/${task.name}`,
    `${task.live}/${task.revisions}`,
    task.wasm.slice(0, 12),
    age(Math.max(0, Date.now() - task.created_at_ms)),
    task.from ?? task.created_by,
    task.description,
  ]);
  print(table(['TASK', 'LIVE', 'WASM', 'AGE', 'FROM', 'DESCRIPTION'], rows));
});

export const getTask = onTasks(async (words) => {
  const { client, json } = words;
  const [namespace, name] = nameOf(words, words.args[0] ?? '');
  const value = await client.json('GET', taskPath(namespace, name));
  if (json) return print(`${JSON.stringify(value)}\n`);
  const { all = [], ...task } = value as unknown as ShownTask;
  print(fieldsText(task));
  const rows = all.map((one) => [
    `${one.revision}${one.revision === task.live ? ' (live)' : ''}`,
    one.wasm.slice(0, 12),
    age(Math.max(0, Date.now() - one.created_at_ms)),
    one.created_by,
  ]);
  print(`\n${table(['REVISION', 'WASM', 'AGE', 'BY'], rows)}`);
});

export const promoteTask = onTasks(async (words) => {
  const { client, args, json } = words;
  const [, task = '', revision] = /^(.*)@(\d+)$/.exec(args[0] ?? '') ?? [];
  if (revision === undefined) throw new UsageError('expected NAME@REVISION, such as hello@2');
  const [namespace, name] = nameOf(words, task);
  const value = await client.json('POST', `${taskPath(namespace, name)}/promote?revision=${revision}`);
  print(json ? `${JSON.stringify(value)}\n` : `${namespace}/${name}@${revision} is live\n`);
});

export const removeTasks = onTasks(async (words) => {
  const { client, args } = words;
  for (const arg of args) {
    const [namespace, name] = nameOf(words, arg);
    await client.json('DELETE', taskPath(namespace, name));
    if (!words.json) print(`${namespace}/${name} removed\n`);
  }
  if (words.json) print(`${JSON.stringify({ removed: args })}\n`);
});

/** `NAME`, or `NAMESPACE/NAME`. */
function nameOf({ namespace }: TaskCall, given: string): [string, string] {
  const [first = '', second] = given.split('/', 2);
  return second === undefined ? [namespace, first] : [first, second];
}

function filesOf(path: string): string[] {
  if (!existsSync(path)) throw new UsageError(`${path}: no such file`);
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .filter((name) => TASK_FILE.test(name))
    .sort()
    .map((name) => join(path, name));
}

async function readTask(file: string) {
  const checked = checkTaskRecord(file, await parseTask(file));
  if ('complaint' in checked) throw new ConfigError(checked.complaint);
  const path = resolve(dirname(file), checked.document.wasm);
  try {
    const bytes = readFileSync(path);
    return { file, document: checked.document, bytes, sha256: hash('sha256', bytes) };
  } catch (error) {
    throw new ConfigError(`${file}: wasm: ${path} cannot be read (${errorCode(error)})`);
  }
}

const taskPath = (namespace: string, name: string) =>
  `${TASKS_PATH}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

function print(...texts: string[]): void {
  process.stdout.write(texts.join(''));
}
