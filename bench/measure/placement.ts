import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { threadOf } from './threads.ts';

/**
 * Where the threads of a contest run. Left alone, the system puts them where it likes, and waking a thread on another
 * core takes longer than what is measured: so the same is said to both sides.
 */
export const placements = ['one core', 'guest apart'] as const;
export type Placement = (typeof placements)[number];

/** Cores that this process may use, as it was started. */
const cores = allowedCores();

/** Why threads cannot be placed so; null where they can. */
export function placementProblem(placement: Placement): string | null {
  if (spawnSync('taskset', ['--version']).error) return 'taskset is not installed (util-linux)';
  return placement === 'guest apart' && cores.length < 2 ? 'there is only one core' : null;
}

/** Puts every thread of this process on the first core, and with it whatever it starts from now on. */
export function placeOnOneCore(): void {
  taskset('-a', '-c', '-p', String(cores[0]), String(process.pid));
}

/** Puts the guest's thread of a process on the second core. */
export function placeGuestApart(pid: number): void {
  taskset('-c', '-p', String(cores[1]), String(threadOf(pid, 'guest')));
}

function taskset(...args: string[]): void {
  const { status, stderr } = spawnSync('taskset', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`taskset ${args.join(' ')}: ${stderr.trim()}`);
}

/** From a list such as `0-2,5`. */
function allowedCores(): number[] {
  const status = process.platform === 'linux' ? readFileSync('/proc/self/status', 'utf8') : '';
  const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '0';
  return list.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
