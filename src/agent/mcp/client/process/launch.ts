/** The launch of a stdio server: finding its command, and keeping file descriptors of this process from it. */
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { constants, readdirSync, readFileSync } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { errorCode } from '../../../../base/errors.ts';

/** A process to start, with every reference resolved. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Null: the working directory of this process. */
  readonly cwd: string | null;
}

/** The part of `child_process.spawn` that the pool uses. */
export type Spawn = (command: string, args: readonly string[], options: SpawnOptions) => ChildProcess;

export interface Executable {
  /** Absolute path of the command. */
  readonly path: string;
  /** The file behind all symbolic links. */
  readonly real: string;
}

/** Looks a command up as a shell does. Null: no such executable file. */
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
      // Try the next folder.
    }
  }
  return null;
}

/*
 * This process may have inherited descriptors (`spear run --config <(…)` has one). Servers must not get them.
 *
 * Everything that Node opens is close-on-exec. Inherited descriptors above the first gap in their numbers are not, and
 * JavaScript cannot set the flag. If there are such descriptors, a shell closes them and then becomes the server. On
 * macOS `posix_spawn` closes them, and without /proc the list is empty.
 */
const DESCRIPTORS = '/proc/self/fd';
const CLOSE_ON_EXEC = 0o2000000;
const LAST_STANDARD_STREAM = 2;
const SYSTEM_PATH = '/bin:/usr/bin:/usr/local/bin';

let inherited: readonly number[] | null = null;

/** The same launch such that the server gets only the descriptors that are meant for it. */
export async function withoutInheritedDescriptors(launch: Launch): Promise<Launch> {
  // Read once: this process opens no such descriptor itself, and closing a closed descriptor does nothing.
  inherited ??= readInherited();
  return inherited.length === 0 ? launch : closingLaunch(launch, inherited);
}

function readInherited(): readonly number[] {
  return namesIn(DESCRIPTORS)
    .map(Number)
    .filter((fd) => fd > LAST_STANDARD_STREAM && isInherited(fd));
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch (error) {
    // Closed after the list was read, like the descriptor of the list itself.
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Launches through a shell that closes the descriptors. `bash` is preferred because `dash` does not support descriptors
 * above 9; a shell that cannot close them does not start the server.
 */
async function closingLaunch(launch: Launch, descriptors: readonly number[]): Promise<Launch> {
  const { command, args, env, cwd } = launch;
  const [bash, program] = await Promise.all([
    findExecutable('bash', SYSTEM_PATH, '/'),
    findExecutable(command, env.PATH ?? '', cwd ?? process.cwd()),
  ]);
  // Unchanged: Node's error then says what is wrong with the command.
  if (program === null) return launch;
  const script = `exec ${descriptors.map((fd) => `${fd}>&-`).join(' ')} && exec "$@"`;
  const server = [program.path, ...args];
  if (bash === null) return { ...launch, command: '/bin/sh', args: ['-c', script, command, ...server] };
  // The environment and HOME are the server's: this shell must read neither BASH_ENV nor .bashrc, which bash would read
  // because its standard input is a socket.
  const shell = ['--norc', '-p', '-c', script, command, ...(await restored(env, program.path))];
  return { ...launch, command: bash.path, args: [...shell, ...server] };
}

/** Variables that bash changes. Other processes can read their values in the arguments. */
const BASH_VARIABLES = ['SHLVL', 'PWD', 'OLDPWD'];

/** An `env` command that restores these variables. A program path with `=` would be taken for a variable. */
async function restored(env: Launch['env'], program: string): Promise<string[]> {
  const tool = await findExecutable('env', SYSTEM_PATH, '/');
  if (tool === null || program.includes('=')) return [];
  const unset = BASH_VARIABLES.filter((name) => env[name] === undefined).flatMap((name) => ['-u', name]);
  const set = BASH_VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [`${name}=${env[name]}`]));
  return [tool.path, ...unset, ...set];
}
