import { errorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { LimitName } from '../runtime/port/limits.ts';
import { ConfigError } from './config-error.ts';
import { type ReadTextFile, readTextFile } from './config-file.ts';
import type { TaskDocument } from './task-document.ts';

const TOML = /\.toml$/i;

/** Settings of a task; every field is set. */
export interface TaskConfig {
  readonly name: string | null;
  /** Null: the default namespace. */
  readonly namespace: string | null;
  /** Strings, except that values of `mcp.*` keys may be any JSON. */
  readonly config: Readonly<JsonObject>;
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly backend: string | null;
  /** Module as the file names it; null: none. */
  readonly wasm: string | null;
}

const empty: TaskConfig = Object.freeze({
  name: null,
  namespace: null,
  config: {},
  limits: {},
  args: [],
  env: {},
  backend: null,
  wasm: null,
});

/** Task config given by a program: the content of a config file. */
export type TaskInput = TaskDocument;

/** Name of a task config in messages. */
export const taskLabel = (source: string | TaskInput | undefined): string =>
  typeof source === 'string' ? source : 'task';

/** Reads and checks a task config. Without a source, the parser and zod are not loaded. */
export async function loadTaskConfig(
  source: string | TaskInput | undefined,
  readFile: ReadTextFile = readTextFile,
): Promise<TaskConfig> {
  if (source === undefined) return empty;
  const { checkTaskDocument } = await import('./task-document.ts');
  const document = typeof source === 'string' ? await parseTask(source, readFile) : source;
  const checked = checkTaskDocument(taskLabel(source), document);
  if ('complaint' in checked) throw new ConfigError(checked.complaint);
  const { name, namespace, config, limits, args, env, backend, wasm } = checked.document;
  return Object.freeze({
    name: name ?? null,
    namespace: namespace ?? null,
    config: (config ?? {}) as JsonObject,
    limits: (limits ?? {}) as TaskConfig['limits'],
    args: args ?? [],
    env: env ?? {},
    backend: backend ?? null,
    wasm: wasm ?? null,
  });
}

/** TOML or JSON, by the name of the file. @throws ConfigError */
export async function parseTask(file: string, readFile: ReadTextFile = readTextFile): Promise<unknown> {
  let text: string;
  try {
    text = readFile(file);
  } catch (error) {
    throw new ConfigError(`${file}: the task config cannot be read (${errorCode(error)})`);
  }
  if (TOML.test(file)) {
    const { parseTomlFile } = await import('./document.ts');
    return parseTomlFile({ path: file, text });
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError(`${file}: not valid JSON: ${(error as Error).message}`);
  }
}
