/**
 * A running stdio server with all processes that it started, and how they are ended.
 *
 * The server ends when its first process has exited, the rest of its process group was ended, and every process that
 * left the group was killed. Those are found by the TMPDIR in their environment, which is unique for each start; that
 * search needs /proc and finds nothing on other systems.
 */
import type { ChildProcessByStdio } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../../../base/errors.ts';

export type PipedChild = ChildProcessByStdio<Writable, Readable, Readable>;

interface EndGraces {
  readonly stdinGraceMs: number;
  readonly termGraceMs: number;
}

/** After SIGKILL only the kernel can delay the end. */
const KILL_WAIT_MS = 1_000;

export class SupervisedProcess {
  readonly child: PipedChild;
  readonly pid: number;
  /** Appended to the error message if the server dies; may be empty. */
  readonly note: string;
  /** Exit code or signal of the first process, in words. Does not wait for the other processes. */
  readonly exited: Promise<string>;
  /** Resolves when all processes have ended. Never rejects. */
  readonly ended: Promise<void>;
  readonly #graces: EndGraces;
  readonly #tmpDir: string;
  #ending: Promise<void> | null = null;
  #isKilled = false;
  #exited = false;

  constructor(
    child: PipedChild,
    details: {
      pid: number;
      tmpDir: string;
      note: string;
      graces: EndGraces;
      cleanUp: (leftovers: number) => Promise<void>;
    },
  ) {
    this.child = child;
    this.pid = details.pid;
    this.note = details.note;
    this.#graces = details.graces;
    this.#tmpDir = details.tmpDir;
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
    });
    this.ended = this.exited.then(async () => {
      this.#exited = true;
      const leftovers = await this.#endGroup();
      child.stdin.destroy();
      child.stdout.destroy();
      child.stderr.destroy();
      await details.cleanUp(leftovers);
    });
  }

  get ending(): boolean {
    return this.#exited || this.#ending !== null;
  }

  /** Closes stdin, then sends SIGTERM, then SIGKILL, each after its grace period. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Ends the group at once, without grace periods. */
  kill(): Promise<void> {
    this.#isKilled = true;
    signalGroup(this.pid, 'SIGKILL');
    return this.end();
  }

  async #end(): Promise<void> {
    this.child.stdin.end();
    if (!(await this.#exitsWithin(this.#graces.stdinGraceMs))) {
      signalGroup(this.pid, 'SIGTERM');
      if (!(await this.#exitsWithin(this.#graces.termGraceMs))) signalGroup(this.pid, 'SIGKILL');
    }
    await Promise.race([this.ended, this.#timeout(this.#graces.termGraceMs + 2 * KILL_WAIT_MS)]);
  }

  async #endGroup(): Promise<number> {
    if (signalGroup(this.pid, 'SIGTERM')) {
      if (this.#isKilled || !(await groupGone(this.pid, this.#graces.termGraceMs))) {
        signalGroup(this.pid, 'SIGKILL');
        await groupGone(this.pid, KILL_WAIT_MS);
      }
    }
    return killMarked(`TMPDIR=${this.#tmpDir}`);
  }

  async #exitsWithin(timeoutMs: number): Promise<boolean> {
    return Promise.race([this.exited.then(() => true), this.#timeout(timeoutMs).then(() => false)]);
  }

  #timeout(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      void this.ended.then(() => clearTimeout(timer));
    });
  }
}

/** False: no process of the group exists. */
function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch (error) {
    return errorCode(error) !== 'ESRCH';
  }
}

const FIRST_POLL_MS = 5;
const MAX_POLL_MS = 50;

/** Polls, because the system reports the exit of our own child only. */
async function groupGone(group: number, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs;
  for (let pause = FIRST_POLL_MS; ; pause = Math.min(pause * 2, MAX_POLL_MS)) {
    if (!signalGroup(group, 0) || !hasLivingMember(group)) return true;
    const left = end - performance.now();
    if (left <= 0) return false;
    await sleep(Math.min(pause, left));
  }
}

/** A zombie stays in its group until its parent waits for it; the first process of a container often never does. */
function hasLivingMember(group: number): boolean {
  const pids = runningProcesses();
  return pids.length === 0 || pids.some((pid) => isLivingMember(pid, group));
}

function isLivingMember(pid: number, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The fields after the name, which may contain any character: state, parent, group.
    const [state, , processGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(processGroup) === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}

/** How much of an environment is read; the variables of a server come first. */
const ENVIRON_BYTES = 128 * 1024;
const READS_PER_TICK = 256;

/**
 * Kills every process that was started with `entry` ("NAME=value") in its environment. Returns their number; 0 without
 * /proc. A read takes about 13 µs, so the loop yields: a machine may have thousands of processes.
 */
async function killMarked(entry: string): Promise<number> {
  const pids = runningProcesses();
  const needle = Buffer.from(`\0${entry}\0`);
  const buffer = Buffer.alloc(ENVIRON_BYTES);
  let killed = 0;
  for (let index = 0; index < pids.length; index++) {
    if (index > 0 && index % READS_PER_TICK === 0) await new Promise(setImmediate);
    const pid = pids[index] as number;
    if (!environmentHolds(pid, needle, buffer)) continue;
    try {
      process.kill(pid, 'SIGKILL');
      killed += 1;
    } catch {
      // The process ended in the meantime.
    }
  }
  return killed;
}

function runningProcesses(): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => Number.isInteger(pid) && pid !== process.pid);
  } catch {
    return [];
  }
}

// `buffer` starts with a NUL that is never overwritten, so the first variable matches like any other.
function environmentHolds(pid: number, needle: Buffer, buffer: Buffer): boolean {
  let file: number;
  try {
    file = openSync(`/proc/${pid}/environ`, 'r');
  } catch {
    return false;
  }
  try {
    const length = readSync(file, buffer, 1, buffer.length - 1, null);
    return buffer.subarray(0, 1 + length).includes(needle);
  } catch {
    return false;
  } finally {
    closeSync(file);
  }
}
