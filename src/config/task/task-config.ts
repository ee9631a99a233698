import { errorCode } from '../../base/error-text.ts';
import type { JsonObject } from '../../base/json.ts';
import { didYouMean } from '../../base/nearest-key.ts';
import { splitOnce } from '../../base/split-once.ts';
import { type LimitName, limitNames, limitSpecs } from '../../protocol/limits.ts';
import { ConfigError } from '../config-error.ts';
import { type ReadTextFile, readTextFile } from '../config-file.ts';

/** What a task is allowed and given; every field is set. */
export interface TaskConfig {
  readonly name: string | null;
  /** The map of the task: strings, but for values of `mcp.*` keys, which may be any JSON. */
  readonly config: Readonly<JsonObject>;
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly backend: string | null;
}

const empty: TaskConfig = Object.freeze({ name: null, config: {}, limits: {}, args: [], env: {}, backend: null });

/** Reads and checks a task config; without a file there is nothing to check and nothing to load for it. */
export async function loadTaskConfig(
  file: string | undefined,
  readFile: ReadTextFile = readTextFile,
): Promise<TaskConfig> {
  if (file === undefined) return empty;
  const { checkTaskDocument } = await import('./schema.ts');
  const checked = checkTaskDocument(file, parseTask(file, readFile));
  if ('complaint' in checked) throw new ConfigError(checked.complaint);
  const { name, config, limits, args, env, backend } = checked.document;
  return Object.freeze({
    name: name ?? null,
    config: (config ?? {}) as JsonObject,
    limits: (limits ?? {}) as TaskConfig['limits'],
    args: args ?? [],
    env: env ?? {},
    backend: backend ?? null,
  });
}

function parseTask(file: string, readFile: ReadTextFile): unknown {
  let text: string;
  try {
    text = readFile(file);
  } catch (error) {
    throw new ConfigError(`${file}: the task config cannot be read (${errorCode(error)})`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError(`${file}: not valid JSON: ${(error as Error).message}`);
  }
}

/** One `--limit NAME=VALUE`. */
export function parseLimit(text: string): [LimitName, number] {
  const [name, value] = splitOnce(text, '=');
  const known = limitNames.find((limit) => limit === name);
  if (known === undefined) {
    const hint = didYouMean(name, limitNames) ?? `valid: ${limitNames.join(', ')}`;
    throw new ConfigError(`--limit ${text}: unknown limit "${name}"; ${hint}`);
  }
  const { min, max } = limitSpecs[known];
  const number = Number(value);
  if (value === null || !/^\d+$/.test(value) || number < min || number > max) {
    throw new ConfigError(`--limit ${text}: expected a whole number from ${min} to ${max}, found "${value ?? ''}"`);
  }
  return [known, number];
}
