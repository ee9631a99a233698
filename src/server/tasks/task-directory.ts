import { hash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { ConfigError } from '../../config/config-error.ts';
import { parseTask } from '../../config/task-config.ts';
import type { Caller } from '../identity/caller.ts';
import { taskDigest, taskId } from '../records/task.ts';
import { type Admission, admitTask } from './admit-task.ts';
import type { Blobs } from './blobs.ts';
import { type TaskBook, TaskError } from './task-book.ts';

const TASK_FILE = /\.(?:toml|json)$/;
const BY_DIRECTORY = 'directory';

export interface TaskDirectoryLoad {
  /** `ns/name` with the outcome. */
  readonly changed: readonly { readonly task: string; readonly outcome: string }[];
  readonly problems: readonly string[];
}

/**
 * Synchronizes tasks with a directory of files, one task each. An invalid file leaves its task unchanged; a removed file
 * removes its task; an unchanged file does not undo a promotion.
 */
export async function loadTaskDirectory(
  caller: Caller,
  directory: string,
  { tasks, blobs, admission }: { readonly tasks: TaskBook; readonly blobs: Blobs; readonly admission: Admission },
): Promise<TaskDirectoryLoad> {
  const changed: { task: string; outcome: string }[] = [];
  const problems: string[] = [];
  const seen = new Map<string, string>();
  for (const name of filesOf(directory)) {
    const file = join(directory, name);
    try {
      const module = (wasm: string) => moduleBeside(file, wasm);
      const { content, bytes } = await admitTask(file, await parseTask(file), module, admission);
      const id = taskId(content);
      const other = seen.get(id);
      if (other !== undefined) throw new TaskError('invalid', `${file}: the task ${id} is already defined in ${other}`);
      seen.set(id, file);
      const before = await tasks.find(content);
      if (before?.fromFile === file && before.fileDigest === taskDigest(content) && blobs.has(content.wasm)) continue;
      await blobs.put(bytes);
      changed.push({ task: id, outcome: (await tasks.apply(content, BY_DIRECTORY, file, caller)).outcome });
    } catch (error) {
      if (!(error instanceof TaskError) && !(error instanceof ConfigError)) throw error;
      problems.push(error.message);
      // The task of an invalid file stays as it was.
      for (const task of await tasks.list(null)) if (task.fromFile === file) seen.set(taskId(task), file);
    }
  }
  for (const task of await tasks.list(null)) {
    if (task.fromFile === null || seen.has(taskId(task))) continue;
    await tasks.remove(task, caller);
    changed.push({ task: taskId(task), outcome: 'removed' });
  }
  return { changed, problems };
}

function filesOf(directory: string): string[] {
  try {
    return readdirSync(directory)
      .filter((name) => TASK_FILE.test(name) && !name.startsWith('.'))
      .sort();
  } catch (error) {
    throw new ConfigError(`--task-dir ${directory}: cannot read the directory (${errorCode(error)})`);
  }
}

async function moduleBeside(file: string, wasm: string) {
  const path = resolve(dirname(file), wasm);
  try {
    const bytes = await readFile(path);
    return { bytes, sha256: hash('sha256', bytes) };
  } catch (error) {
    throw new TaskError('invalid', `${file}: wasm: ${path} cannot be read (${errorCode(error)})`);
  }
}
