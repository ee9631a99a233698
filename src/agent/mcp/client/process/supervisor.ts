/**
 * Processes of the pool: starts stdio servers and owns them until their end. POSIX only.
 *
 * - At most `maxSubprocesses` processes exist, those that start or end included. At the limit a start waits for a process
 *   that is ending, or closes an idle one; otherwise it fails.
 * - Each process leads its own process group and has a private HOME and TMPDIR (directories.ts).
 * - A watchdog process kills the groups if this process dies (host-watchdog.ts).
 * - The config decides whether a server runs in a sandbox (sandbox.ts).
 */
import type { Writable } from 'node:stream';
import { errorCode, systemErrorOf } from '../../../../base/errors.ts';
import type { McpSandbox } from '../../../../server/records/server.ts';
import { McpBudgetError, McpConnectionError } from '../errors.ts';
import type { CompiledPoolOptions, PoolLog } from '../pool-options.ts';
import { type HomePlace, removeTree, ServerDirectories } from './directories.ts';
import { HostWatchdog } from './host-watchdog.ts';
import { type Launch, type Spawn, withoutInheritedDescriptors } from './launch.ts';
import { Sandbox, type SandboxedLaunch, SETTINGS_FD } from './sandbox.ts';
import { type PipedChild, SupervisedProcess } from './supervised-process.ts';

interface ProcessSpec {
  readonly serverId: string;
  readonly home: HomePlace;
  readonly command: string;
  readonly args: readonly string[];
  /** Null: the working directory of this process. */
  readonly cwd: string | null;
  /** With resolved references. Only PATH, HOME and TMPDIR are added, if they are not set. */
  readonly env: Readonly<Record<string, string>>;
  /** Null: the record asks for no sandbox. */
  readonly sandbox: McpSandbox | null;
}

export class ProcessSupervisor {
  readonly #options: CompiledPoolOptions;
  readonly #spawn: Spawn;
  readonly #log: PoolLog;
  readonly #closeIdle: () => Promise<void> | null;
  readonly #directories: ServerDirectories;
  readonly #sandbox: Sandbox;
  readonly #running = new Set<SupervisedProcess>();
  readonly #starting = new Set<Promise<SupervisedProcess>>();
  #count = 0;
  #watchdog: HostWatchdog | null = null;
  #closed = false;

  /** `closeIdle` ends an unused process; null: there is none. */
  constructor(
    options: CompiledPoolOptions,
    deps: { spawn: Spawn; log: PoolLog; closeIdle: () => Promise<void> | null },
  ) {
    this.#options = options;
    this.#spawn = deps.spawn;
    this.#log = deps.log;
    this.#closeIdle = deps.closeIdle;
    this.#directories = new ServerDirectories(options.tmpDir);
    this.#sandbox = new Sandbox({ ...deps, command: options.sandboxCommand, path: options.path });
  }

  /** Processes that are starting, running or ending. */
  get count(): number {
    return this.#count;
  }

  async start(spec: ProcessSpec): Promise<SupervisedProcess> {
    if (this.#closed) throw new McpConnectionError(spec.serverId, 'closed', 'the pool is closed');
    while (this.#count >= this.#options.maxSubprocesses) await this.#room(spec.serverId);
    this.#count += 1;
    const starting = this.#start(spec);
    this.#starting.add(starting);
    try {
      return await starting;
    } catch (error) {
      this.#count -= 1;
      throw error;
    } finally {
      this.#starting.delete(starting);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#starting);
    await Promise.all([...this.#running].map((running) => running.end()));
    await this.#watchdog?.close();
    await this.#directories.close();
  }

  /** Removes the homes of the servers of a run. Their processes must have ended. */
  removeRun(run: string): Promise<void> {
    return this.#directories.removeRun(run);
  }

  killAll(): void {
    for (const running of this.#running) void running.kill();
  }

  /** Waits for a process that is ending, or ends an idle one. @throws McpBudgetError if there is neither */
  async #room(serverId: string): Promise<void> {
    const ending = [...this.#running].filter((running) => running.ending).map((running) => running.ended);
    const room = ending.length > 0 ? Promise.race(ending) : this.#closeIdle();
    if (room !== null) return room;
    throw new McpBudgetError(serverId, `${this.#count} server processes are already running (maxSubprocesses)`);
  }

  async #start(spec: ProcessSpec): Promise<SupervisedProcess> {
    if (this.#options.stdio === 'deny') throw stdioDenied(spec.serverId);
    const [home, tmpRoot, tmpDir] = await this.#makeDirectories(spec);
    this.#watchdog ??= new HostWatchdog({ spawn: this.#spawn, log: this.#log, tmpRoot, path: this.#options.path });
    const watchdog = this.#watchdog;
    watchdog.watch();
    try {
      const env = { PATH: this.#options.path, HOME: home, TMPDIR: tmpDir, ...spec.env };
      const bare: Launch = { command: spec.command, args: spec.args, env, cwd: spec.cwd };
      const sandboxed = await this.#sandboxed(bare, spec, { home, tmpDir });
      const child = this.#launch(await withoutInheritedDescriptors(sandboxed ?? bare), sandboxed?.settings ?? null);
      const pid = await spawned(child);
      watchdog.add(pid);
      const running: SupervisedProcess = new SupervisedProcess(child, {
        pid,
        tmpDir,
        note: sandboxed?.note ?? '',
        graces: this.#options,
        cleanUp: async (leftovers) => {
          // Processes inside a sandbox are in another group and die with the sandbox.
          if (leftovers > 0 && sandboxed === null) this.#reportLeftovers(spec.serverId, leftovers);
          await removeTree(tmpDir);
          watchdog.remove(pid);
          this.#running.delete(running);
          this.#count -= 1;
        },
      });
      this.#running.add(running);
      return running;
    } catch (error) {
      await removeTree(tmpDir);
      throw error instanceof McpConnectionError ? error : spawnFailure(spec, error);
    }
  }

  async #sandboxed(
    launch: Launch,
    { serverId, sandbox: requested }: ProcessSpec,
    directories: { readonly home: string; readonly tmpDir: string },
  ): Promise<SandboxedLaunch | null> {
    const sandbox = this.#options.stdio === 'sandboxed' ? requiredSandbox(requested) : requested;
    if (sandbox === null || sandbox.mode === 'none') return null;
    const by = this.#options.stdio === 'sandboxed' ? 'node' : 'record';
    return this.#sandbox.wrap(launch, { serverId, sandbox, by, ...directories });
  }

  #launch({ command, args, env, cwd }: Launch, settings: string | null): PipedChild {
    const child = this.#spawn(command, args, {
      env: { ...env },
      stdio: settings === null ? ['pipe', 'pipe', 'pipe'] : ['pipe', 'pipe', 'pipe', 'pipe'],
      detached: true,
      ...(cwd === null ? {} : { cwd }),
    }) as PipedChild;
    if (settings !== null) {
      const pipe = child.stdio[SETTINGS_FD] as Writable;
      // The 'error' or 'exit' event of the child reports the failure.
      pipe.on('error', () => {});
      pipe.end(settings);
    }
    return child;
  }

  async #makeDirectories(spec: ProcessSpec): Promise<[home: string, tmpRoot: string, tmpDir: string]> {
    const directories = this.#directories;
    const { serverId, home } = spec;
    try {
      return await Promise.all([directories.home(spec), directories.tmpRoot(), directories.makeTmp()]);
    } catch (error) {
      const { tmpDir } = this.#options;
      const code = errorCode(error) ?? 'unknown error';
      const under = 'run' in home ? tmpDir : `${home.stateDir} and ${tmpDir}`;
      const message = `server "${serverId}": cannot create its directories under ${under}: ${code}`;
      throw new McpConnectionError(serverId, 'spawn_failed', message, undefined, systemErrorOf(error));
    }
  }

  #reportLeftovers(serverId: string, count: number): void {
    const message = `killed ${count} processes that had left the process group of the server`;
    this.#log({ level: 'info', event: 'process_leftover', serverId, message });
  }
}

/** The sandbox of the record, but required. Default: network access and no paths. */
function requiredSandbox(requested: McpSandbox | null): McpSandbox {
  const plain = { mode: 'required', network: 'allow', read_only_paths: [], writable_paths: [] } as const;
  return { ...plain, ...requested, mode: 'required' };
}

function stdioDenied(serverId: string): McpConnectionError {
  const message = `server "${serverId}": this node does not run stdio servers (mcp.stdio = "deny")`;
  return new McpConnectionError(serverId, 'stdio_denied', message);
}

// Node sets the pid synchronously, and emits 'error' if it could not start the process.
function spawned(child: PipedChild): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('spawn', () => resolve(child.pid as number));
  });
}

function spawnFailure(spec: ProcessSpec, error: unknown): McpConnectionError {
  const code = errorCode(error) ?? 'unknown error';
  const hint =
    code === 'ENOENT'
      ? 'there is no such command on its PATH, or stdio.cwd does not exist'
      : code === 'EACCES'
        ? 'permission denied to execute it'
        : code;
  return new McpConnectionError(
    spec.serverId,
    'spawn_failed',
    `server "${spec.serverId}": stdio.command "${spec.command}" could not be started: ${hint}`,
    undefined,
    systemErrorOf(error),
  );
}
