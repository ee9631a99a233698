/** Bits of an epoll mask, as in Linux. */
export const IN = 1;
export const OUT = 4;
export const ERR = 8;
export const HUP = 16;

/** Reported whether or not they were asked for. */
export const ALWAYS = ERR | HUP;

const pollBits = { EPOLLIN: IN, EPOLLOUT: OUT, EPOLLERR: ERR, EPOLLHUP: HUP } as const;

export function pollNames(mask: number): string[] {
  return Object.entries(pollBits)
    .filter(([, bit]) => mask & bit)
    .map(([name]) => name);
}

/**
 * Where a suspended guest waits for something to change. Entries into an instance are one stack, so only its top frame
 * ever waits here: one waiter, never a list. Waking while nobody waits is remembered by nobody: whoever waits looks at
 * the state first.
 */
export class WaitPoint {
  readonly #mark: (() => void) | null;
  #wake: (() => void) | undefined;

  /** `mark` is called before a wait begins, and when it is over, before its waiter looks what has come. */
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
