import { readdirSync, readFileSync } from 'node:fs';
import type { Stepper } from './stepped.ts';

/** Whose work a thread does. Everything that V8 and libuv keep for themselves is a helper. */
export const threadKinds = ['host', 'guest', 'trail', 'helpers'] as const;
export type ThreadKind = (typeof threadKinds)[number];

/** Nanoseconds of processor time. */
export type ThreadTimes = Readonly<Record<ThreadKind, number>>;

const KIND_OF_NAME = new Map<string, ThreadKind>([
  ['spear-guest', 'guest'],
  ['spear-guests', 'guest'],
  ['bare-guest', 'guest'],
  ['spear-trail', 'trail'],
]);

interface Thread {
  readonly id: number;
  readonly kind: ThreadKind;
  readonly ns: number;
}

function threadsOf(pid: number): Thread[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) => {
    const id = Number(task);
    try {
      const read = (file: string) => readFileSync(`/proc/${pid}/task/${task}/${file}`, 'utf8').trim();
      const kind = id === pid ? 'host' : (KIND_OF_NAME.get(read('comm')) ?? 'helpers');
      return [{ id, kind, ns: Number(read('schedstat').split(' ', 1)[0]) }];
    } catch {
      return []; // it ended meanwhile
    }
  });
}

export function threadTimes(pid: number): ThreadTimes {
  const times = { host: 0, guest: 0, trail: 0, helpers: 0 };
  for (const { kind, ns } of threadsOf(pid)) times[kind] += ns;
  return times;
}

/** The thread of a kind that has only one. */
export function threadOf(pid: number, kind: 'guest' | 'trail'): number {
  const found = threadsOf(pid).find((thread) => thread.kind === kind);
  if (found === undefined) throw new Error(`process ${pid} has no ${kind} thread`);
  return found.id;
}

/** The same steps, and what a step costs each kind of thread. */
export interface CountedSteps {
  readonly steps: Stepper;
  /** By round; the first call of `steps` is the warm-up. To be asked when the last round is over. */
  readonly perStep: () => ThreadTimes[];
}

interface Round {
  readonly count: number;
  readonly from: ThreadTimes;
  to: ThreadTimes;
}

/**
 * Counts the steps of another process. A round lasts until the next begins: what is put off until later, such as the
 * lines of a trail, belongs to the calls that caused it.
 */
export function countedSteps(pid: number, steps: Stepper): CountedSteps {
  const rounds: Round[] = [];
  const endRound = (now: ThreadTimes) => {
    const last = rounds.at(-1);
    if (last) last.to = now;
  };
  return {
    steps: (count) => {
      const now = threadTimes(pid);
      endRound(now);
      rounds.push({ count, from: now, to: now });
      return steps(count);
    },
    perStep: () => {
      endRound(threadTimes(pid));
      return rounds.slice(1).map(share);
    },
  };
}

/** Counts steps that this very process takes: between rounds it does other things, so they end with their last step. */
export function countedHere(steps: Stepper): CountedSteps {
  const rounds: Round[] = [];
  return {
    steps: async (count) => {
      const before = threadTimes(process.pid);
      const from = { ...before, host: ownThreadNs() };
      const times = await steps(count);
      const host = ownThreadNs();
      rounds.push({ count, from, to: { ...threadTimes(process.pid), host } });
      return times;
    },
    perStep: () => rounds.slice(1).map(share),
  };
}

/** Looking at all threads takes time of this one; looking at itself takes none. */
function ownThreadNs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) * NS_PER_US;
}

const NS_PER_US = 1_000;

function share({ from, to, count }: Round): ThreadTimes {
  const each = (kind: ThreadKind) => (to[kind] - from[kind]) / count;
  return { host: each('host'), guest: each('guest'), trail: each('trail'), helpers: each('helpers') };
}
