import type { Writable } from 'node:stream';
import { errorCode } from '../../../../base/error-text.ts';
import { systemErrorOf } from '../../../../base/system-error.ts';
import type { McpSandbox } from '../../../../server/records/record.ts';
import { McpBudgetError, McpConnectionError } from '../errors.ts';
import type { CompiledPoolOptions, PoolLog } from '../pool-options.ts';
import { type HomePlace, removeTree, ServerDirectories } from './directories.ts';
import { HostWatchdog } from './host-watchdog.ts';
import { closingLaunch, inheritedDescriptors } from './inherited-descriptors.ts';
import { type Launch, Sandbox, type SandboxedLaunch, SETTINGS_FD } from './sandbox.ts';
import type { Spawn } from './spawn.ts';
import { type PipedChild, SupervisedProcess } from './supervised-process.ts';

export interface ProcessSpec {
  readonly serverId: string;
  readonly home: HomePlace;
  readonly command: string;
  readonly args: readonly string[];
  /** The host's own where null. */
  readonly cwd: string | null;
  /** Resolved. PATH, HOME and TMPDIR are added where it does not name them; nothing else is. */
  readonly env: Readonly<Record<string, string>>;
  /** Null: none is asked for. */
  readonly sandbox: McpSandbox | null;
}

/** Owns every process the pool starts: their number, their directories, their end. POSIX only. */
export class ProcessSupervisor {
  readonly #options: CompiledPoolOptions;
  readonly #spawn: Spawn;
  readonly #log: PoolLog;
  readonly #giveWay: () => Promise<void> | null;
  readonly #directories: ServerDirectories;
  readonly #sandbox: Sandbox;
  readonly #running = new Set<SupervisedProcess>();
  readonly #starting = new Set<Promise<SupervisedProcess>>();
  #places = 0;
  #watchdog: HostWatchdog | null = null;
  #closed = false;

  /** `giveWay` ends a process that nobody needs now; null where there is none. */
  constructor(options: CompiledPoolOptions, deps: { spawn: Spawn; log: PoolLog; giveWay: () => Promise<void> | null }) {
    this.#options = options;
    this.#spawn = deps.spawn;
    this.#log = deps.log;
    this.#giveWay = deps.giveWay;
    this.#directories = new ServerDirectories(options.tmpDir);
    this.#sandbox = new Sandbox({ ...deps, command: options.sandboxCommand, path: options.path });
  }

  /** Processes that are starting, running or ending. */
  get count(): number {
    return this.#places;
  }

  async start(spec: ProcessSpec): Promise<SupervisedProcess> {
    if (this.#closed) throw new McpConnectionError(spec.serverId, 'closed', 'the pool is closed');
    while (this.#places >= this.#options.maxSubprocesses) await this.#room(spec.serverId);
    this.#places += 1;
    const starting = this.#start(spec);
    this.#starting.add(starting);
    try {
      return await starting;
    } catch (error) {
      this.#places -= 1;
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

  /** The homes that servers had for this run alone; their processes have ended. */
  removeRun(run: string): Promise<void> {
    return this.#directories.removeRun(run);
  }

  killAll(): void {
    for (const running of this.#running) void running.kill();
  }

  /** Waits for a place where one is about to become free, or can be made free. */
  async #room(serverId: string): Promise<void> {
    const ending = [...this.#running].filter((running) => running.ending).map((running) => running.ended);
    const room = ending.length > 0 ? Promise.race(ending) : this.#giveWay();
    if (room !== null) return room;
    throw new McpBudgetError(serverId, `${this.#places} server processes are already running (maxSubprocesses)`);
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
      const child = this.#launch(await closedLaunch(sandboxed ?? bare), sandboxed?.settings ?? null);
      const pid = await spawned(child);
      watchdog.add(pid);
      const running: SupervisedProcess = new SupervisedProcess(child, {
        pid,
        tmpDir,
        note: sandboxed?.note ?? '',
        graces: this.#options,
        cleanUp: async (leftovers) => {
          // What is inside a sandbox is in no group of ours, and dies with it.
          if (leftovers > 0 && sandboxed === null) this.#reportLeftovers(spec.serverId, leftovers);
          await removeTree(tmpDir);
          watchdog.remove(pid);
          this.#running.delete(running);
          this.#places -= 1;
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
    { serverId, sandbox: asked }: ProcessSpec,
    directories: { readonly home: string; readonly tmpDir: string },
  ): Promise<SandboxedLaunch | null> {
    const sandbox = this.#options.stdio === 'sandboxed' ? inAnyCase(asked) : asked;
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
      // One that could not be started shows that in its own event, one that died in its exit.
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

/** What the record asks for; where it asks for none or would do without, a sandbox with the network and nothing else. */
function inAnyCase(asked: McpSandbox | null): McpSandbox {
  const plain = { mode: 'required', network: 'allow', read_only_paths: [], writable_paths: [] } as const;
  return { ...plain, ...asked, mode: 'required' };
}

function stdioDenied(serverId: string): McpConnectionError {
  const message = `server "${serverId}": this node does not run stdio servers (mcp.stdio = "deny")`;
  return new McpConnectionError(serverId, 'stdio_denied', message);
}

/** The launch, such that the server gets only the descriptors that are meant for it. */
async function closedLaunch(launch: Launch): Promise<Launch> {
  const inherited = inheritedDescriptors();
  if (inherited.length === 0) return launch;
  // A command that does not exist is started as it is: Node's error says what is wrong.
  return (await closingLaunch(launch, inherited)) ?? launch;
}

// Node sets the pid synchronously; an 'error' event is what follows where it could not start anything.
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
