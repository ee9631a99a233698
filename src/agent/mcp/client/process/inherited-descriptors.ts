import { readdirSync, readFileSync } from 'node:fs';
import { errorCode } from '../../../../base/error-text.ts';
import { findExecutable } from './executable.ts';
import type { Launch } from './sandbox.ts';

/*
 * Keeps descriptors that this process inherited (`spear run --config <(…)` has one) from the servers that it starts.
 *
 * Everything that Node opens is close-on-exec. Inherited descriptors are not, above the first gap in their numbers, and
 * JavaScript cannot set the flag. Where there are such descriptors, a shell closes them and becomes the server. On macOS
 * `posix_spawn` closes them, and there is no /proc: the list is empty.
 */
const DESCRIPTORS = '/proc/self/fd';
const CLOSE_ON_EXEC = 0o2000000;
const LAST_STANDARD_STREAM = 2;
const SYSTEM_PATH = '/bin:/usr/bin:/usr/local/bin';

let known: readonly number[] | null = null;

/**
 * The descriptors of this process that a child would inherit, except for the standard streams. Read once: this process
 * opens no such descriptor itself, and closing one that is closed already does nothing.
 */
export function inheritedDescriptors(): readonly number[] {
  known ??= readInherited();
  return known;
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
    // Closed since the list was read, as the descriptor of the list itself.
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * The same launch through a shell that closes `descriptors` first. `bash` is preferred because `dash` does not know
 * descriptors above 9; a shell that cannot close them does not start the server. Null: there is no such command.
 */
export async function closingLaunch(launch: Launch, descriptors: readonly number[]): Promise<Launch | null> {
  const { command, args, env, cwd } = launch;
  const [bash, program] = await Promise.all([
    findExecutable('bash', SYSTEM_PATH, '/'),
    findExecutable(command, env.PATH ?? '', cwd ?? process.cwd()),
  ]);
  if (program === null) return null;
  const script = `exec ${descriptors.map((fd) => `${fd}>&-`).join(' ')} && exec "$@"`;
  const server = [program.path, ...args];
  if (bash === null) return { ...launch, command: '/bin/sh', args: ['-c', script, command, ...server] };
  // The environment and HOME are the server's: this shell reads neither BASH_ENV nor .bashrc, which bash would read
  // because its standard input is a socket.
  const shell = ['--norc', '-p', '-c', script, command, ...(await restored(env, program.path))];
  return { ...launch, command: bash.path, args: [...shell, ...server] };
}

/** Variables that bash changes on its way. Their values are in the arguments of a process, for all to read. */
const BASH_VARIABLES = ['SHLVL', 'PWD', 'OLDPWD'];

/** A command that gives the server these variables as they were. It would take a path with `=` for a variable. */
async function restored(env: Launch['env'], program: string): Promise<string[]> {
  const tool = await findExecutable('env', SYSTEM_PATH, '/');
  if (tool === null || program.includes('=')) return [];
  const unset = BASH_VARIABLES.filter((name) => env[name] === undefined).flatMap((name) => ['-u', name]);
  const set = BASH_VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [`${name}=${env[name]}`]));
  return [tool.path, ...unset, ...set];
}
