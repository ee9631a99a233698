import type { BatchOutcome } from './port.ts';

/** How long a call waits for its line to be written. */
const WRITTEN_MS = 5_000;

/** Batches that somebody waits for until they are in the file. */
export class AwaitedBatches {
  readonly #waiting = new Map<number, (isWritten: boolean) => void>();
  #last = 0;

  /** False also if nothing is heard of the batch for too long. */
  ask(): { readonly number: number; readonly outcome: Promise<boolean> } {
    const number = ++this.#last;
    const { promise: outcome, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => this.settle({ asked: number, isWritten: false }), WRITTEN_MS);
    this.#waiting.set(number, (isWritten) => {
      clearTimeout(timer);
      resolve(isWritten);
    });
    return { number, outcome };
  }

  settle({ asked, isWritten }: BatchOutcome): void {
    this.#waiting.get(asked)?.(isWritten);
    this.#waiting.delete(asked);
  }

  /** Nothing is written any more. */
  failAll(): void {
    for (const asked of [...this.#waiting.keys()]) this.settle({ asked, isWritten: false });
  }
}
