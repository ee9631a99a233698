import { preemptionWords } from '../port/guest-spec.ts';
import { type MemoryPages, preemptionImports } from '../port/preemption.ts';
import type { CancellationScope } from './cancellation-scope.ts';
import type { Output } from './hostcalls/output.ts';
import { throwTrap, trapGuest } from './trap.ts';

/** Of `limits.turn_ms`, what a guest may compute where it cannot be suspended: then it traps, before its thread is ended. */
const UNSUSPENDED_SHARE = 0.5;

/** What a module imports that gives way. */
export interface YieldPoints {
  imports(memory: MemoryPages | null): Record<string, unknown>;
}

/** For a guest that shares its thread with nobody: nobody ever asks it to. */
export const noYieldPoints: YieldPoints = {
  imports: (memory) => ({
    [preemptionImports.tick]: () => {},
    [preemptionImports.turns]: new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
    ...ownMemory(memory),
  }),
};

const ownMemory = (memory: MemoryPages | null): Record<string, unknown> =>
  memory === null ? {} : { [preemptionImports.memory]: new WebAssembly.Memory({ ...memory }) };

/** What a guest may have to wait for at its turn. */
export type Room = Pick<Output, 'room'>;

/** How one guest of many gives way. */
export class GuestYieldPoints implements YieldPoints {
  readonly #thread: ThreadScheduler;
  readonly #guest: number;
  readonly #scope: CancellationScope;
  readonly #rooms: readonly Room[];
  readonly #turnMs: number;
  /** Since when it is asked to wait for its turn. It goes on all the same where it cannot be suspended. */
  #waitsSince: number | null = null;

  constructor(
    thread: ThreadScheduler,
    guest: number,
    scope: CancellationScope,
    rooms: readonly Room[],
    turnMs: number,
  ) {
    this.#thread = thread;
    this.#guest = guest;
    this.#scope = scope;
    this.#rooms = rooms;
    this.#turnMs = turnMs;
  }

  imports(memory: MemoryPages | null): Record<string, unknown> {
    return {
      [preemptionImports.tick]: new WebAssembly.Suspending(() => this.#tick()),
      [preemptionImports.turns]: this.#thread.memory,
      ...ownMemory(memory),
    };
  }

  #tick(): Promise<void> | undefined {
    if (this.#scope.ended) throwTrap();
    this.#thread.holds(this.#guest);
    this.#thread.begin();
    if (this.#waitsSince !== null) return this.#goesOnAnyway(this.#waitsSince);
    this.#waitsSince = performance.now();
    const turn = this.#scope.hold(this.#wait());
    // Where it cannot be suspended nobody takes the promise, and the guest's end rejects it.
    if (turn instanceof Promise) turn.catch(() => {});
    return turn as Promise<void>;
  }

  /** Also until the host has taken enough of what it wrote. */
  async #wait(): Promise<void> {
    for (const posted of this.#rooms) await posted.room?.();
    await this.#thread.next();
    this.#waitsSince = null;
  }

  #goesOnAnyway(since: number): undefined {
    const boundMs = this.#turnMs * UNSUSPENDED_SHARE;
    if (performance.now() - since > boundMs) {
      trapGuest(
        `the guest ran for ${boundMs} ms where it cannot be preempted (in an allocation, or before its entry function)`,
      );
    }
    return undefined;
  }
}

/**
 * The line of guests that gave way. One goes on in each turn of the event loop, so that messages and timers of the others
 * are never more than one turn away, however many compute.
 */
export class ThreadScheduler {
  /** What a guest looks at: a clock says there that it is time. */
  readonly memory: WebAssembly.Memory;
  readonly #words: Int32Array;
  readonly #line: (() => void)[] = [];
  #isScheduled = false;

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory;
    this.#words = new Int32Array(memory.buffer);
  }

  /** From now on the thread is this guest's. */
  holds(guest: number): void {
    Atomics.store(this.#words, preemptionWords.holder, guest);
  }

  /** Whoever looks next need not give way. */
  begin(): void {
    Atomics.store(this.#words, preemptionWords.yieldPoints, 0);
  }

  /** Resolves when it is this one's turn again. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#line.push(resolve);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const first = this.#line.shift();
      if (this.#line.length > 0) this.#schedule();
      this.begin();
      first?.();
    });
  }
}
