import { turnsAt } from '../port/thread-spec.ts';

/**
 * The line of guests that gave way. One goes on in each turn of the event loop, so that messages and timers of the others
 * are never more than one turn away, however many compute.
 */
export class ThreadTurns {
  /** What a guest looks at: a clock says there that it is time. */
  readonly memory: WebAssembly.Memory;
  readonly #words: Int32Array;
  readonly #line: (() => void)[] = [];
  #isGoingOn = false;

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory;
    this.#words = new Int32Array(memory.buffer);
  }

  /** From now on the thread is this guest's. */
  holds(guest: number): void {
    Atomics.store(this.#words, turnsAt.holder, guest);
  }

  /** Whoever looks next need not give way. */
  begin(): void {
    Atomics.store(this.#words, turnsAt.giveWay, 0);
  }

  /** Resolves when it is this one's turn again. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#line.push(resolve);
      this.#goOn();
    });
  }

  #goOn(): void {
    if (this.#isGoingOn) return;
    this.#isGoingOn = true;
    setImmediate(() => {
      this.#isGoingOn = false;
      const first = this.#line.shift();
      if (this.#line.length > 0) this.#goOn();
      this.begin();
      first?.();
    });
  }
}
