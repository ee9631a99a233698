/** Bits of an epoll mask, as in Linux. */
export const IN = 1;
export const OUT = 4;
export const ERR = 8;
export const HUP = 16;

/** Reported whatever the mask. */
export const ALWAYS = ERR | HUP;

const pollBits = { EPOLLIN: IN, EPOLLOUT: OUT, EPOLLERR: ERR, EPOLLHUP: HUP } as const;

export function pollNames(mask: number): string[] {
  return Object.entries(pollBits)
    .filter(([, bit]) => mask & bit)
    .map(([name]) => name);
}

/**
 * Where a suspended guest waits for a change. Entries into an instance form one stack and only the top frame waits, so there
 * is at most one waiter. A notification without a waiter is not stored: waiters check the state before they wait.
 */
export class WaitPoint {
  readonly #mark: (() => void) | null;
  #wake: (() => void) | undefined;

  /** `mark` is called before a wait, and after it before the waiter examines what arrived; a replay step. */
  constructor(mark: (() => void) | null = null) {
    this.#mark = mark;
  }

  get isWaiting(): boolean {
    return this.#wake !== undefined;
  }

  /** Resolves at the next {@link notify}. */
  changed(): Promise<void> {
    this.#mark?.();
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    return this.#mark === null ? woken : woken.then(this.#mark);
  }

  notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
