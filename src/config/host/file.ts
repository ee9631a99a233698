import { readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { errorCode } from '../../base/error-text.ts';
import { ConfigError } from '../config-error.ts';

export type ReadTextFile = (path: string) => string;

export interface HostFile {
  /** The path in the user's own spelling, for messages. */
  readonly path: string;
  /** Paths inside the file are relative to this folder. */
  readonly folder: string;
  readonly text: string;
}

export function readTextFile(path: string): string {
  return readFileSync(path, 'utf8');
}

/** The explicit file, else the one SPEAR_CONFIG names, else the user's own if there is one. */
export function findHostFile(
  explicit: string | undefined,
  env: NodeJS.ProcessEnv,
  readFile: ReadTextFile,
): HostFile | undefined {
  if (explicit !== undefined) return open(explicit, 'the config file', readFile);
  if (env.SPEAR_CONFIG) return open(env.SPEAR_CONFIG, 'the config file named by SPEAR_CONFIG', readFile);
  const own = userFile(env);
  return own === undefined ? undefined : open(own, undefined, readFile);
}

function userFile(env: NodeJS.ProcessEnv): string | undefined {
  // The XDG rules: a relative path in the variable is to be ignored.
  if (env.XDG_CONFIG_HOME && isAbsolute(env.XDG_CONFIG_HOME)) {
    return join(env.XDG_CONFIG_HOME, 'spear', 'config.toml');
  }
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, '.config', 'spear', 'config.toml') : undefined;
}

/** With `required` undefined a file that is not there is no error. */
function open(path: string, required: string | undefined, readFile: ReadTextFile): HostFile | undefined {
  try {
    return { path, folder: dirname(resolve(path)), text: readFile(path) };
  } catch (error) {
    const code = errorCode(error) ?? String(error);
    if (required === undefined && (code === 'ENOENT' || code === 'ENOTDIR')) return undefined;
    throw new ConfigError(`${path}: ${required ?? 'the config file'} cannot be read (${code})`);
  }
}
