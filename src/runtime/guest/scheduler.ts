import { preemptionWords } from '../port/guest-spec.ts';
import { type MemoryPages, preemptionImports } from '../port/preemption.ts';
import type { CancellationScope } from './cancellation-scope.ts';
import type { Output } from './hostcalls/output.ts';
import { throwTrap, trapGuest } from './trap.ts';

/** Share of `limits.turn_ms` that a guest may compute where it cannot be suspended; then it traps, before its thread is terminated. */
const UNSUSPENDED_SHARE = 0.5;

/**
 * Queue of preempted guests on a shared thread. One guest resumes per tick of the event loop, so that messages and timers
 * of the others are never more than one tick away, however many guests compute.
 */
export class ThreadScheduler {
  /** Shared with the preemption clock, which sets its `yieldRequested` word. */
  readonly memory: WebAssembly.Memory;
  readonly #words: Int32Array;
  readonly #queue: (() => void)[] = [];
  #isScheduled = false;

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory;
    this.#words = new Int32Array(memory.buffer);
  }

  /** Records which guest runs now, for the host. */
  running(guest: number): void {
    Atomics.store(this.#words, preemptionWords.holder, guest);
  }

  /** Starts a new time slice. */
  startSlice(): void {
    Atomics.store(this.#words, preemptionWords.yieldRequested, 0);
  }

  /** Resolves when the caller is first in the queue. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#queue.push(resolve);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const first = this.#queue.shift();
      if (this.#queue.length > 0) this.#schedule();
      this.startSlice();
      first?.();
    });
  }
}

/** Supplies what an instrumented module imports for its yield points. */
export interface YieldPoints {
  imports(memory: MemoryPages | null): Record<string, unknown>;
}

/** For a guest with a dedicated thread, which is never preempted. */
export const noYieldPoints: YieldPoints = {
  imports: (memory) => ({
    [preemptionImports.tick]: () => {},
    [preemptionImports.turns]: new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
    ...ownMemory(memory),
  }),
};

const ownMemory = (memory: MemoryPages | null): Record<string, unknown> =>
  memory === null ? {} : { [preemptionImports.memory]: new WebAssembly.Memory({ ...memory }) };

/** Yield points of one guest on a shared thread. */
export class GuestYieldPoints implements YieldPoints {
  readonly #scheduler: ThreadScheduler;
  readonly #guest: number;
  readonly #scope: CancellationScope;
  readonly #buffers: readonly Pick<Output, 'room'>[];
  readonly #turnMs: number;
  /** Since when the guest should yield; it keeps running where it cannot be suspended. Null: it need not yield. */
  #yieldingSince: number | null = null;

  /** `buffers`: posted data; the guest also waits at a yield point until the host has acknowledged enough of it. */
  constructor(
    scheduler: ThreadScheduler,
    guest: number,
    scope: CancellationScope,
    buffers: readonly Pick<Output, 'room'>[],
    turnMs: number,
  ) {
    this.#scheduler = scheduler;
    this.#guest = guest;
    this.#scope = scope;
    this.#buffers = buffers;
    this.#turnMs = turnMs;
  }

  imports(memory: MemoryPages | null): Record<string, unknown> {
    return {
      [preemptionImports.tick]: new WebAssembly.Suspending(() => this.#tick()),
      [preemptionImports.turns]: this.#scheduler.memory,
      ...ownMemory(memory),
    };
  }

  #tick(): Promise<void> | undefined {
    if (this.#scope.ended) throwTrap();
    this.#scheduler.running(this.#guest);
    this.#scheduler.startSlice();
    if (this.#yieldingSince !== null) return this.#continueUnsuspended(this.#yieldingSince);
    this.#yieldingSince = performance.now();
    const turn = this.#scope.guard(this.#yield());
    // Where the guest cannot be suspended the engine drops the promise, which cancellation would reject unhandled.
    if (turn instanceof Promise) turn.catch(() => {});
    return turn as Promise<void>;
  }

  async #yield(): Promise<void> {
    for (const buffer of this.#buffers) await buffer.room?.();
    await this.#scheduler.next();
    this.#yieldingSince = null;
  }

  #continueUnsuspended(since: number): undefined {
    const boundMs = this.#turnMs * UNSUSPENDED_SHARE;
    if (performance.now() - since > boundMs) {
      trapGuest(
        `the guest ran for ${boundMs} ms where it cannot be preempted (in an allocation, or before its entry function)`,
      );
    }
    return undefined;
  }
}
