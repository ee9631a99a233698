/**
 * Sandbox of stdio servers: wraps a launch in bubblewrap (`bwrap`).
 *
 * - The sandbox contains /usr, the loader's files, the server's own HOME, TMPDIR and command, and the paths that its
 *   record lists. With network access it also contains the files for name resolution and TLS roots.
 * - A probe runs once for each kind of network and decides whether bubblewrap works on this machine. A probe that timed
 *   out is repeated for the next server.
 * - bubblewrap gets its settings, environment included, over a pipe: other processes can read a command line.
 * - Limits on CPU and memory are not handled here.
 */
import { existsSync, realpathSync } from 'node:fs';
import { lstat, readlink } from 'node:fs/promises';
import { isAbsolute, normalize } from 'node:path';
import { startOf } from '../../../../base/text.ts';
import type { McpSandbox, SandboxNetwork } from '../../../../server/records/server.ts';
import { McpConnectionError } from '../errors.ts';
import type { PoolLog } from '../pool-options.ts';
import { type Executable, findExecutable, type Launch, type Spawn } from './launch.ts';

export interface SandboxedLaunch extends Launch {
  /** bubblewrap's arguments, for {@link SETTINGS_FD}. */
  readonly settings: string;
  /** Appended to the error message of a server that exits at once. */
  readonly note: string;
}

export const SETTINGS_FD = 3;

interface LaunchContext {
  readonly serverId: string;
  readonly sandbox: McpSandbox;
  /** Which config asks for the sandbox. */
  readonly by: 'record' | 'node';
  readonly home: string;
  readonly tmpDir: string;
}

type Probe = ProbeResult & { readonly bwrap: string };

export class Sandbox {
  readonly #deps: { readonly command: string; readonly path: string; readonly spawn: Spawn; readonly log: PoolLog };
  readonly #probes = new Map<SandboxNetwork, Promise<Probe>>();
  readonly #warned = new Set<string>();

  constructor(deps: { command: string; path: string; spawn: Spawn; log: PoolLog }) {
    this.#deps = deps;
  }

  /**
   * The same process inside a sandbox; null if a sandbox is only preferred and not available.
   * @throws McpConnectionError if it is required and not available, or a listed path does not exist
   */
  async wrap(launch: Launch, context: LaunchContext): Promise<SandboxedLaunch | null> {
    const { serverId, sandbox, home, tmpDir } = context;
    const probe = await this.#probe(sandbox.network);
    if (!probe.works) return this.#unavailable(context, probe.why);
    checkPaths(serverId, sandbox);
    const executable = await this.#executable(launch, serverId);
    const system = await systemMounts(sandbox.network);
    const mounts = [...system, ...serverMounts(executable, context, system)];
    const settings = [
      ...probe.isolation,
      ...mountArguments(mounts),
      '--remount-ro',
      '/',
      '--chdir',
      launch.cwd ?? home,
      ...Object.entries(launch.env).flatMap(([name, value]) => ['--setenv', name, value]),
    ];
    return {
      command: probe.bwrap,
      args: ['--args', String(SETTINGS_FD), '--', executable.path, ...launch.args],
      // Marks every process of this run; the other variables exist only inside the sandbox.
      env: { TMPDIR: tmpDir },
      cwd: '/',
      settings: settings.map((argument) => `${argument}\0`).join(''),
      note: noteOf(launch, mounts),
    };
  }

  #probe(network: SandboxNetwork): Promise<Probe> {
    const cached = this.#probes.get(network);
    if (cached !== undefined) return cached;
    const probe = this.#runProbe(network);
    this.#probes.set(network, probe);
    void probe.then((result) => {
      // A busy machine may have time later. Any other failure is final.
      if (!result.works && result.timedOut) this.#probes.delete(network);
    });
    return probe;
  }

  async #runProbe(network: SandboxNetwork): Promise<Probe> {
    const { command, path, spawn } = this.#deps;
    const found = await findExecutable(command, `${path}:/usr/bin:/bin`, '/');
    if (found !== null) return { ...(await probeSandbox(found.path, network, spawn)), bwrap: found.path };
    const why = `${command} is not installed on this node; install bubblewrap`;
    return { works: false, why, timedOut: false, bwrap: '' };
  }

  #unavailable({ serverId, sandbox, by }: LaunchContext, why: string): null {
    if (sandbox.mode === 'required') {
      const rule = by === 'node' ? 'mcp.stdio of this node is "sandboxed"' : 'sandbox.mode is "required"';
      const message = `server "${serverId}": ${rule}, but no sandbox is available: ${why}`;
      throw new McpConnectionError(serverId, 'sandbox_unavailable', message);
    }
    if (this.#warned.has(serverId)) return null;
    this.#warned.add(serverId);
    const message = `sandbox.mode is "preferred": running without a sandbox: ${why}`;
    this.#deps.log({ level: 'warn', event: 'sandbox_missing', serverId, message });
    return null;
  }

  async #executable({ command, env, cwd }: Launch, serverId: string): Promise<Executable> {
    const found = await findExecutable(command, env.PATH ?? this.#deps.path, cwd ?? process.cwd());
    if (found !== null) return found;
    const message = `server "${serverId}": stdio.command "${command}" could not be started: there is no such command on its PATH`;
    throw new McpConnectionError(serverId, 'spawn_failed', message);
  }
}

function checkPaths(serverId: string, sandbox: McpSandbox): void {
  for (const field of ['read_only_paths', 'writable_paths'] as const) {
    for (const path of sandbox[field]) {
      const problem = pathProblem(path);
      if (problem === null) continue;
      const message = `server "${serverId}": sandbox.${field}: "${path}" ${problem}`;
      throw new McpConnectionError(serverId, 'record_invalid', message);
    }
  }
}

/** Decides by the real path as well: `/./proc` and a link to /proc are /proc. */
function pathProblem(path: string): string | null {
  if (!isAbsolute(path)) return 'must be an absolute path';
  let real: string;
  try {
    real = realpathSync(path);
  } catch {
    return 'does not exist on this node';
  }
  if (!isInProc(normalize(path)) && !isInProc(real)) return null;
  return 'would expose the processes of the host; a sandbox has its own /proc';
}

const isInProc = (path: string) => path === '/proc' || path.startsWith('/proc/');

function noteOf({ args, cwd }: Launch, mounts: readonly Mount[]): string {
  const named = [...(cwd === null ? [] : [cwd]), ...args].filter((path) => isAbsolute(path) && existsSync(path));
  const hidden = named.filter((path) => !isVisible(path, mounts));
  const missing = hidden.length === 0 ? '' : `; not visible: ${hidden.join(', ')}`;
  return ` (the server runs in a sandbox that contains /usr, its own HOME and TMPDIR, its command and the listed paths${missing}; add paths with sandbox.read_only_paths or sandbox.writable_paths)`;
}

/** One option of bubblewrap that adds something to the file system of the sandbox. */
interface Mount {
  readonly kind: 'ro-bind' | 'ro-bind-try' | 'bind' | 'symlink' | 'proc' | 'dev' | 'tmpfs';
  readonly path: string;
  /** Target of a symlink. @default the path itself */
  readonly target?: string;
}

const systemFolders = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Files that programs under /usr need to start. */
const loaderFiles = ['/etc/ld.so.cache', '/etc/ld.so.conf', '/etc/ld.so.conf.d', '/etc/alternatives', '/etc/localtime'];

/** Files for name resolution and TLS roots. Not their folders: those may contain private keys. */
const networkFiles = [
  '/etc/resolv.conf',
  '/etc/hosts',
  '/etc/host.conf',
  '/etc/nsswitch.conf',
  '/etc/gai.conf',
  '/etc/services',
  '/etc/protocols',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
  '/etc/ca-certificates',
  '/etc/pki/tls/certs',
  '/etc/pki/tls/cert.pem',
  '/etc/pki/tls/openssl.cnf',
  '/etc/pki/ca-trust/extracted',
];

/** The mounts that every sandbox has. */
async function systemMounts(network: SandboxNetwork): Promise<Mount[]> {
  const folders = await Promise.all(systemFolders.map(systemFolder));
  const files = network === 'allow' ? [...loaderFiles, ...networkFiles] : loaderFiles;
  return [
    { kind: 'ro-bind', path: '/usr' },
    ...folders.flat(),
    { kind: 'proc', path: '/proc' },
    { kind: 'dev', path: '/dev' },
    { kind: 'tmpfs', path: '/tmp' },
    ...files.map((path): Mount => ({ kind: 'ro-bind-try', path })),
  ];
}

/** On most systems these are symbolic links into /usr; on others they are real folders. */
async function systemFolder(path: string): Promise<Mount[]> {
  const found = await lstat(path).catch(() => null);
  if (found === null) return [];
  if (found.isSymbolicLink()) return [{ kind: 'symlink', path, target: await readlink(path) }];
  return [{ kind: 'ro-bind', path }];
}

/** The mounts of one server: its directories, its command, and the paths of its record. */
function serverMounts(
  { path, real }: Executable,
  { home, tmpDir, sandbox }: LaunchContext,
  system: readonly Mount[],
): Mount[] {
  const mounts: Mount[] = [
    ...[home, tmpDir, ...sandbox.writable_paths].map((writable): Mount => ({ kind: 'bind', path: writable })),
    // After the writable paths: a path in both lists is read-only.
    ...sandbox.read_only_paths.map((readOnly): Mount => ({ kind: 'ro-bind', path: readOnly })),
  ];
  const present = [...system, ...mounts];
  if (!isVisible(real, present)) mounts.push({ kind: 'ro-bind', path: real });
  if (path !== real && !isVisible(path, present)) mounts.push({ kind: 'symlink', path, target: real });
  return mounts;
}

/** Whether a mount contains the path. A symbolic link in a mount counts as visible. */
function isVisible(path: string, mounts: readonly Mount[]): boolean {
  return mounts.some(({ kind, path: mounted }) => {
    if (kind === 'tmpfs' || kind === 'proc' || kind === 'dev') return false;
    return path === mounted || path.startsWith(mounted.endsWith('/') ? mounted : `${mounted}/`);
  });
}

/** Outer mounts first: a later mount hides what is below its path. */
function mountArguments(mounts: readonly Mount[]): string[] {
  const isWholeSystem = mounts.some(({ path }) => path === '/');
  // A record that lists the root includes the system's links and files.
  const wanted = mounts.filter(({ kind }) => !isWholeSystem || (kind !== 'symlink' && kind !== 'ro-bind-try'));
  return [...wanted]
    .sort((a, b) => depth(a.path) - depth(b.path))
    .flatMap(({ kind, path, target }) => {
      if (kind === 'proc' || kind === 'dev' || kind === 'tmpfs') return [`--${kind}`, path];
      return [`--${kind}`, target ?? path, path];
    });
}

function depth(path: string): number {
  return path.split('/').filter((part) => part !== '').length;
}

/** Enough for a busy machine to start a process that runs `exit 0`. */
const PROBE_TIMEOUT_MS = 10_000;
const MAX_REASON_CHARS = 300;

type ProbeResult =
  | { readonly works: true; readonly isolation: readonly string[] }
  | { readonly works: false; readonly why: string; readonly timedOut: boolean };

/** The stricter options first: without `--disable-userns` a server may create namespaces. */
const userNamespaces: readonly (readonly string[])[] = [['--unshare-user', '--disable-userns'], []];

/** The options that every sandbox has. */
function isolationArguments(network: SandboxNetwork, userNamespace: readonly string[]): string[] {
  return [
    '--unshare-all',
    ...(network === 'allow' ? ['--share-net'] : []),
    ...userNamespace,
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
    '--clearenv',
  ];
}

/** Starts a process in a sandbox: an installed bubblewrap need not work, least of all in a container. */
async function probeSandbox(command: string, network: SandboxNetwork, spawn: Spawn): Promise<ProbeResult> {
  const mounts = mountArguments(await systemMounts(network));
  let result: ProbeResult = { works: false, why: 'the sandbox was not probed', timedOut: false };
  for (const userNamespace of userNamespaces) {
    const isolation = isolationArguments(network, userNamespace);
    const args = [...isolation, ...mounts, '--remount-ro', '/', '--', '/bin/sh', '-c', 'exit 0'];
    const failure = await attempt(command, args, spawn);
    if (failure === null) return { works: true, isolation };
    result = { works: false, ...failure };
    if (failure.timedOut) break;
  }
  return result;
}

/** Null: the process ran. */
function attempt(
  command: string,
  args: readonly string[],
  spawn: Spawn,
): Promise<{ readonly why: string; readonly timedOut: boolean } | null> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: {}, detached: true });
    let stderr = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      if (stderr.length < MAX_REASON_CHARS) stderr += chunk.toString('utf8');
    });
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      resolve({ why: `${command} did not start a process within ${PROBE_TIMEOUT_MS} ms`, timedOut: true });
    }, PROBE_TIMEOUT_MS);
    child.once('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      resolve({ why: `${command} cannot be started (${error.code ?? error.message})`, timedOut: false });
    });
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      const firstLine = startOf(stderr.trim().split('\n', 1)[0] ?? '', MAX_REASON_CHARS);
      const reason = firstLine || (signal ?? `exit code ${code}`);
      resolve(code === 0 ? null : { why: `${command} does not work here: ${reason}`, timedOut: false });
    });
  });
}
