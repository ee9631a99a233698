/** A terminal as the prompt needs it. */
export interface PromptTerminal {
  readonly columns: number;
  write(text: string): void;
  /**
   * Single keys, unechoed, until the keyboard is given back with what is returned here. `onLost`: there will be none.
   * @throws if this process may not read from the terminal now
   */
  takeKeys(onKeys: (keys: string) => void, onLost: () => void): () => void;
}

export interface PromptPorts {
  /** @throws if there is no terminal any more */
  readonly open: () => PromptTerminal & { close(): void };
  /** What Ctrl-C does everywhere else. */
  readonly interrupt: () => void;
}

/** What was typed before there was anything to read is no answer to it. */
export const SETTLE_MS = 300;

export const CTRL_C = '\u0003';
export const CTRL_D = '\u0004';
/** Ends what a guest may have left switched on: colours that hide text, another character set. */
export const PLAIN_TEXT = '\r\u001b[0m\u001b(B';

/** One question at a time, whatever it is about: there is one terminal, and one person. */
export class PromptTurns {
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** `ask` is told how many wait behind it. */
  take<T>(ask: (waiting: number) => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const turn = this.#last.then(() => {
      this.#waiting -= 1;
      return ask(this.#waiting);
    });
    // An answer may settle other questions too: those are not shown any more.
    this.#last = turn.catch(() => {}).then(() => new Promise((resolve) => setImmediate(resolve)));
    return turn;
  }
}
