import { errorCode } from '../../base/error-text.ts';
import type { JsonObject } from '../../base/json.ts';
import type { LimitName } from '../../runtime/port/limits.ts';
import { ConfigError } from '../config-error.ts';
import { type ReadTextFile, readTextFile } from '../config-file.ts';
import type { TaskDocument } from './schema.ts';

const TOML = /\.toml$/i;

/** What a task is allowed and given; every field is set. */
export interface TaskConfig {
  readonly name: string | null;
  /** Null: the default one. */
  readonly namespace: string | null;
  /** The map of the task: strings, but for values of `mcp.*` keys, which may be any JSON. */
  readonly config: Readonly<JsonObject>;
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly backend: string | null;
  /** The module that the file names, in its own words; null: it names none. */
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

/** A task config as a program writes it: what the file would hold. */
export type TaskInput = TaskDocument;

/** What messages about a task config call it. */
export const taskLabel = (source: string | TaskInput | undefined): string =>
  typeof source === 'string' ? source : 'task';

/** Reads and checks a task config; without one there is nothing to check and nothing to load for it. */
export async function loadTaskConfig(
  source: string | TaskInput | undefined,
  readFile: ReadTextFile = readTextFile,
): Promise<TaskConfig> {
  if (source === undefined) return empty;
  const { checkTaskDocument } = await import('./schema.ts');
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
    const { parseNamedToml } = await import('../toml.ts');
    return parseNamedToml({ path: file, text });
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError(`${file}: not valid JSON: ${(error as Error).message}`);
  }
}
