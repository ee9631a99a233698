import { existsSync, realpathSync } from 'node:fs';
import { isAbsolute, normalize } from 'node:path';
import type { McpSandbox, SandboxNetwork } from '../../../../server/records/record.ts';
import { McpConnectionError } from '../errors.ts';
import type { PoolLog } from '../pool-options.ts';
import { type Executable, findExecutable } from './executable.ts';
import { contentMounts, isVisible, type Mount, mountArguments, systemMounts } from './sandbox-arguments.ts';
import { type ProbeResult, probeSandbox } from './sandbox-probe.ts';
import type { Spawn } from './spawn.ts';

/** A process to start, with everything resolved. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The host's own where null. */
  readonly cwd: string | null;
}

export interface SandboxedLaunch extends Launch {
  /** For file descriptor 3. Not the command line: what is there can be read by every process of the machine. */
  readonly settings: string;
  /** For the message of a server that dies at once. */
  readonly note: string;
}

export const SETTINGS_FD = 3;

interface LaunchContext {
  readonly serverId: string;
  readonly sandbox: McpSandbox;
  /** Who asks for it. */
  readonly by: 'record' | 'node';
  readonly home: string;
  readonly tmpDir: string;
}

/** Puts stdio servers into bubblewrap. Whether that works here is tried once for each kind of network. */
export class Sandbox {
  readonly #deps: { readonly command: string; readonly path: string; readonly spawn: Spawn; readonly log: PoolLog };
  readonly #probes = new Map<SandboxNetwork, Promise<ProbeResult & { readonly bwrap: string }>>();
  readonly #warned = new Set<string>();

  constructor(deps: { command: string; path: string; spawn: Spawn; log: PoolLog }) {
    this.#deps = deps;
  }

  /**
   * The same process inside a sandbox; null where a sandbox is only preferred and cannot be had.
   * @throws McpConnectionError where it is required and cannot be had, or its record lists what is not there
   */
  async wrap(launch: Launch, context: LaunchContext): Promise<SandboxedLaunch | null> {
    const { serverId, sandbox, home, tmpDir } = context;
    const probe = await this.#probe(sandbox.network);
    if (!probe.works) return this.#without(context, probe.why);
    checkPaths(serverId, sandbox);
    const executable = await this.#executable(launch, serverId);
    const system = await systemMounts(sandbox.network);
    const own = contentMounts(
      {
        executable,
        home,
        tmpDir,
        readOnlyPaths: sandbox.read_only_paths,
        writablePaths: sandbox.writable_paths,
      },
      system,
    );
    const mounts = [...system, ...own];
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
      // The mark by which every process of this run is found; the rest reaches only what is inside.
      env: { TMPDIR: tmpDir },
      cwd: '/',
      settings: settings.map((argument) => `${argument}\0`).join(''),
      note: noteOf(launch, mounts),
    };
  }

  #probe(network: SandboxNetwork): Promise<ProbeResult & { readonly bwrap: string }> {
    const known = this.#probes.get(network);
    if (known !== undefined) return known;
    const probe = this.#try(network);
    this.#probes.set(network, probe);
    void probe.then((result) => {
      // A machine that was too busy may have time later; what does not work here never will.
      if (!result.works && result.timedOut) this.#probes.delete(network);
    });
    return probe;
  }

  async #try(network: SandboxNetwork): Promise<ProbeResult & { readonly bwrap: string }> {
    const { command, path, spawn } = this.#deps;
    const found = await findExecutable(command, `${path}:/usr/bin:/bin`, '/');
    if (found === null) {
      return {
        works: false,
        why: `${command} is not installed on this node; install bubblewrap`,
        timedOut: false,
        bwrap: '',
      };
    }
    return { ...(await probeSandbox(found.path, network, spawn)), bwrap: found.path };
  }

  #without({ serverId, sandbox, by }: LaunchContext, why: string): null {
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

/** Looks at where a path leads, not at how it is written: `/./proc` and a link to it are /proc. */
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
