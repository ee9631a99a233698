import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';

export interface Executable {
  /** Where the command is found, absolute. */
  readonly path: string;
  /** The file behind all links. */
  readonly real: string;
}

/** Looks a command up as a shell does. Null: there is none that may be executed. */
export async function findExecutable(command: string, searchPath: string, cwd: string): Promise<Executable | null> {
  const candidates = command.includes('/')
    ? [resolve(cwd, command)]
    : searchPath
        .split(':')
        .filter(isAbsolute)
        .map((folder) => join(folder, command));
  for (const path of candidates) {
    try {
      await access(path, constants.X_OK);
      if ((await stat(path)).isFile()) return { path, real: await realpath(path) };
    } catch {
      // Not this one.
    }
  }
  return null;
}
