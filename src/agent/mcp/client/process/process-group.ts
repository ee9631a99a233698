import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../../../base/error-text.ts';

/** False when no process of the group is left. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch (error) {
    return errorCode(error) !== 'ESRCH';
  }
}

const FIRST_LOOK_MS = 5;
const LONGEST_LOOK_MS = 50;

/** The system reports the end of our own child only, so the rest of its group has to be looked for. */
export async function groupGone(group: number, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs;
  for (let pause = FIRST_LOOK_MS; ; pause = Math.min(pause * 2, LONGEST_LOOK_MS)) {
    if (!signalGroup(group, 0) || !hasLivingMember(group)) return true;
    const left = end - performance.now();
    if (left <= 0) return false;
    await sleep(Math.min(pause, left));
  }
}

/** A process that ended keeps its place in the group until its parent looks, and the first process of a container often never does. */
function hasLivingMember(group: number): boolean {
  const pids = runningProcesses();
  return pids.length === 0 || pids.some((pid) => isLivingMember(pid, group));
}

function isLivingMember(pid: number, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // After the name, which may hold anything: state, parent, group.
    const [state, , processGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(processGroup) === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}

/** An environment is looked at up to here; the variables of a server come first in it. */
const ENVIRON_BYTES = 128 * 1024;
const PROCESSES_PER_TURN = 256;

/**
 * Kills every process that carries `entry` ("NAME=value") in the environment it was started with, and returns how many
 * there were. This finds the children of a server that left its process group. A read costs about 13 µs a process;
 * the loop yields, so that a machine with thousands of them does not stop the host. Linux only: elsewhere 0.
 */
export async function killMarked(entry: string): Promise<number> {
  const pids = runningProcesses();
  const needle = Buffer.from(`\0${entry}\0`);
  const buffer = Buffer.alloc(ENVIRON_BYTES);
  let killed = 0;
  for (let index = 0; index < pids.length; index++) {
    if (index > 0 && index % PROCESSES_PER_TURN === 0) await new Promise(setImmediate);
    const pid = pids[index] as number;
    if (!environmentHolds(pid, needle, buffer)) continue;
    try {
      process.kill(pid, 'SIGKILL');
      killed += 1;
    } catch {
      // It ended in between.
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

// `buffer` starts with a NUL that is never written over, so that the first variable is found like any other.
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
