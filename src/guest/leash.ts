import { throwUncatchable } from './uncatchable.ts';

interface Frame {
  readonly reject: (trap: unknown) => void;
}

/**
 * What one guest of many is ended by: a guest with a thread of its own ends with the thread. It holds every wait of the
 * guest, so that each can be made to end in a trap, which no guest can catch.
 */
export class Leash {
  readonly #frames = new Set<Frame>();
  readonly #closing = new Set<() => void>();
  #ended = false;
  /** While it is not set, nothing may wait, as in the start section of a module that nobody went over. */
  mayWait = true;
  /** Called when the guest has the thread again. */
  readonly resumes: () => void;
  readonly #waits: () => void;

  /** `waits`: called when the guest lets go of the thread. */
  constructor(resumes: () => void, waits: () => void = () => {}) {
    this.resumes = resumes;
    this.#waits = waits;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** What a call gives that may wait: as it is, or as a promise that the guest's end rejects. */
  hold<T>(given: T): T | Promise<Awaited<T>> {
    if (this.#ended) return throwUncatchable();
    if (!(given instanceof Promise)) return given;
    return this.#held(given);
  }

  /** The same for a call of the guest's own, which may be made where nothing can wait. */
  holdCall<T>(given: T): T | Promise<Awaited<T>> {
    if (!this.mayWait && given instanceof Promise) throw new WebAssembly.SuspendError('nothing can wait here');
    return this.hold(given);
  }

  #held<T>(given: Promise<T>): Promise<Awaited<T>> {
    this.#waits();
    return new Promise((resolve, reject) => {
      const frame: Frame = { reject };
      this.#frames.add(frame);
      const over =
        <V>(settle: (value: V) => void) =>
        (value: V) => {
          this.#frames.delete(frame);
          this.resumes();
          settle(value);
        };
      given.then(over(resolve as (value: T) => void), over(reject));
    });
  }

  /** Called when the guest ends, unless what this gives is called before. */
  atEnd(close: () => void): () => void {
    this.#closing.add(close);
    return () => this.#closing.delete(close);
  }

  /** Ends the guest where it waits: the innermost wait first, as a trap would go through it. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    const frames = [...this.#frames].reverse();
    this.#frames.clear();
    for (const { reject } of frames) reject(aTrap());
    this.close();
  }

  /** Nothing of the guest is to happen any more. */
  close(): void {
    for (const close of this.#closing) close();
    this.#closing.clear();
  }
}

function aTrap(): unknown {
  try {
    return throwUncatchable();
  } catch (trap) {
    return trap;
  }
}

/** An import that may wait. */
export function suspending(leash: Leash | null, call: (...args: never[]) => unknown): WebAssembly.Suspending {
  if (leash === null) return new WebAssembly.Suspending(call);
  return new WebAssembly.Suspending((...args: never[]) => leash.holdCall(call(...args)));
}
