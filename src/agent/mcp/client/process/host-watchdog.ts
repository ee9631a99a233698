import type { ChildProcess } from 'node:child_process';
import type { PoolLog } from '../pool-options.ts';
import type { Spawn } from './launch.ts';

/*
 * Kills the servers if the host dies without ending them (SIGKILL, a crash, the OOM killer).
 *
 * One small process reads the process groups of all servers from a pipe whose only other end is in the host. The kernel
 * closes that end whatever the cause of death. Then the watchdog kills the groups, then every other process with a
 * TMPDIR under our temporary root (a new server whose group was not yet written, a grandchild in another session;
 * without /proc this step does nothing), and removes that root. The search is repeated: a process shows its environment
 * only after its exec.
 *
 * Why a shell: `PR_SET_PDEATHSIG` (setpriv) follows the thread that spawned and does not reach grandchildren; cgroups
 * and PID namespaces need privileges; a Node process takes 28 ms and 45 MB, /bin/sh 2 ms and 1.7 MB. Nothing waits for
 * its start: the pipe buffers what is written until then.
 */
const script = `
trap '' HUP INT TERM
groups=' '
while read -r op id; do
  case $op in
    +) groups="$groups$id " ;;
    -) case $groups in *" $id "*) groups="\${groups%% $id *} \${groups#* $id }" ;; esac ;;
  esac
done
for id in $groups; do kill -KILL "-$id" 2>/dev/null; done
for round in 1 2 3 4; do
  found=$(grep -l -s -F "TMPDIR=$1/" /proc/[0-9]*/environ)
  [ -z "$found" ] && [ "$round" -gt 2 ] && break
  for file in $found; do
    pid=\${file#/proc/}
    kill -KILL "\${pid%%/*}" 2>/dev/null
  done
  sleep 0.05 2>/dev/null || sleep 1
done
[ -n "$1" ] && rm -rf -- "$1"
`;

const SHELL = '/bin/sh';
/** Bounds restarts of a watchdog that is killed again and again. */
const MAX_STARTS = 4;
const CLOSE_TIMEOUT_MS = 2_000;

export class HostWatchdog {
  readonly #spawn: Spawn;
  readonly #log: PoolLog;
  readonly #tmpRoot: string;
  readonly #path: string;
  readonly #groups = new Set<number>();
  #process: ChildProcess | null = null;
  #starts = 0;
  #closing = false;

  constructor(deps: { spawn: Spawn; log: PoolLog; tmpRoot: string; path: string }) {
    this.#spawn = deps.spawn;
    this.#log = deps.log;
    this.#tmpRoot = deps.tmpRoot;
    this.#path = deps.path;
  }

  /** Called before the first server starts: the host may die during that start. */
  watch(): void {
    if (this.#process === null) this.#start();
  }

  add(group: number): void {
    this.#groups.add(group);
    if (this.#process === null) this.#start();
    else this.#write(`+ ${group}\n`);
  }

  remove(group: number): void {
    if (this.#groups.delete(group)) this.#write(`- ${group}\n`);
  }

  /** Closes the pipe and waits for the watchdog, which cleans up as on the death of the host. */
  async close(): Promise<void> {
    this.#closing = true;
    const child = this.#process;
    if (child === null) return;
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    const timer = setTimeout(() => child.kill('SIGKILL'), CLOSE_TIMEOUT_MS);
    child.stdin?.end();
    await ended;
    clearTimeout(timer);
  }

  #start(): void {
    if (this.#starts === MAX_STARTS) return;
    this.#starts += 1;
    const child = this.#spawn(SHELL, ['-c', script, 'spear-mcp-watchdog', this.#tmpRoot], {
      // In another session: the Ctrl-C of a terminal must not reach it before the host has finished.
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { PATH: `/usr/bin:/bin:${this.#path}` },
    });
    this.#process = child;
    const onExit = (why: string) => {
      if (this.#process !== child) return;
      this.#process = null;
      if (this.#closing) return;
      this.#log({
        level: 'warn',
        event: 'watchdog_lost',
        serverId: null,
        message: `the watchdog process exited: ${why}`,
      });
      if (this.#groups.size > 0) this.#start();
    };
    child.once('error', (error) => onExit(error.message));
    child.once('exit', (code, signal) => onExit(signal ?? `exit code ${code}`));
    child.stdin?.on('error', () => {});
    child.unref();
    (child.stdin as { unref?: () => void } | null)?.unref?.();
    this.#write([...this.#groups].map((group) => `+ ${group}\n`).join(''));
  }

  #write(text: string): void {
    if (text !== '' && this.#process?.stdin?.writable) this.#process.stdin.write(text);
  }
}
