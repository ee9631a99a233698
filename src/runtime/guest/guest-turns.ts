import { type MemoryPages, turnImports } from '../port/turns.ts';
import type { Output } from './hostcalls/output.ts';
import type { Leash } from './leash.ts';
import type { ThreadTurns } from './thread-turns.ts';
import { throwUncatchable, trapGuest } from './uncatchable.ts';

/** Of `limits.turn_ms`, what a guest may compute where it cannot be suspended: then it traps, before its thread is ended. */
const UNSUSPENDED_SHARE = 0.5;

/** What a module imports that gives way. */
export interface TurnTaking {
  imports(memory: MemoryPages | null): Record<string, unknown>;
}

/** For a guest that shares its thread with nobody: nobody ever asks it to. */
export const noTurns: TurnTaking = {
  imports: (memory) => ({
    [turnImports.tick]: () => {},
    [turnImports.turns]: new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
    ...ownMemory(memory),
  }),
};

const ownMemory = (memory: MemoryPages | null): Record<string, unknown> =>
  memory === null ? {} : { [turnImports.memory]: new WebAssembly.Memory({ ...memory }) };

/** What a guest may have to wait for at its turn. */
export type Room = Pick<Output, 'room'>;

/** How one guest of many gives way. */
export class GuestTurns implements TurnTaking {
  readonly #thread: ThreadTurns;
  readonly #guest: number;
  readonly #leash: Leash;
  readonly #rooms: readonly Room[];
  readonly #turnMs: number;
  /** Since when it is asked to wait for its turn. It goes on all the same where it cannot be suspended. */
  #waitsSince: number | null = null;

  constructor(thread: ThreadTurns, guest: number, leash: Leash, rooms: readonly Room[], turnMs: number) {
    this.#thread = thread;
    this.#guest = guest;
    this.#leash = leash;
    this.#rooms = rooms;
    this.#turnMs = turnMs;
  }

  imports(memory: MemoryPages | null): Record<string, unknown> {
    return {
      [turnImports.tick]: new WebAssembly.Suspending(() => this.#tick()),
      [turnImports.turns]: this.#thread.memory,
      ...ownMemory(memory),
    };
  }

  #tick(): Promise<void> | undefined {
    if (this.#leash.ended) throwUncatchable();
    this.#thread.holds(this.#guest);
    this.#thread.begin();
    if (this.#waitsSince !== null) return this.#goesOnAnyway(this.#waitsSince);
    this.#waitsSince = performance.now();
    const turn = this.#leash.hold(this.#wait());
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
