import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { errorCode } from '../base/errors.ts';
import { ConfigError } from './config-error.ts';
import { configDirectory } from './directories.ts';

export type ReadTextFile = (path: string) => string;

export interface ConfigFile {
  /** Path as the user wrote it, for messages. */
  readonly path: string;
  /** Paths inside the file are relative to this folder. */
  readonly folder: string;
  readonly text: string;
}

export function readTextFile(path: string): string {
  return readFileSync(path, 'utf8');
}

/** Finds the explicit file, else the file that `variable` names, else `name` in the user's config directory. */
export function findConfigFile(
  explicit: string | undefined,
  { variable, name }: { readonly variable: string; readonly name: string },
  env: NodeJS.ProcessEnv,
  readFile: ReadTextFile,
): ConfigFile | undefined {
  if (explicit !== undefined) return open(explicit, 'the config file', readFile);
  const named = env[variable];
  if (named) return open(named, `the config file named by ${variable}`, readFile);
  const own = configDirectory(env);
  return own === null ? undefined : open(join(own, name), undefined, readFile);
}

/** `required` describes a file that must exist; undefined: a missing file is not an error. */
function open(path: string, required: string | undefined, readFile: ReadTextFile): ConfigFile | undefined {
  try {
    return { path, folder: dirname(resolve(path)), text: readFile(path) };
  } catch (error) {
    const code = errorCode(error) ?? String(error);
    if (required === undefined && (code === 'ENOENT' || code === 'ENOTDIR')) return undefined;
    throw new ConfigError(`${path}: ${required ?? 'the config file'} cannot be read (${code})`);
  }
}
