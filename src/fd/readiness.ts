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
  #wake: (() => void) | undefined;

  /** Resolves at the next {@link notify}, or after `ms` (negative: never by itself). */
  changed(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms < 0 ? undefined : setTimeout(() => this.notify(), ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
