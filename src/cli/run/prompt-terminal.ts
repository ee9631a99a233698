/** Terminal operations of a prompt. */
export interface PromptTerminal {
  readonly columns: number;
  write(text: string): void;
  /**
   * Delivers single keys without echo until the returned function is called. `onLost`: the terminal was closed.
   * @throws if this process cannot read from the terminal
   */
  takeKeys(onKeys: (keys: string) => void, onLost: () => void): () => void;
}

export interface PromptPorts {
  /** @throws if the terminal was closed */
  readonly open: () => PromptTerminal & { close(): void };
  /** Interrupts the run like Ctrl-C. */
  readonly interrupt: () => void;
}

/** Keys within this time after a prompt appears are ignored: the user cannot have read it. */
export const SETTLE_MS = 300;

export const CTRL_C = '\u0003';
export const CTRL_D = '\u0004';
/** Resets colours and character set that a guest may have left changed. */
export const PLAIN_TEXT = '\r\u001b[0m\u001b(B';

/** Serializes prompts: there is one terminal. */
export class PromptTurns {
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** Calls `ask` with the number of prompts that wait behind it. */
  take<T>(ask: (waiting: number) => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const turn = this.#last.then(() => {
      this.#waiting -= 1;
      return ask(this.#waiting);
    });
    // An answer may settle other prompts too; those are not shown.
    this.#last = turn.catch(() => {}).then(() => new Promise((resolve) => setImmediate(resolve)));
    return turn;
  }
}
