import { visible } from '../../base/text.ts';

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

/*
 * Lines of a prompt. They are wrapped here and not by the terminal, so that no untrusted text can look like a line of the
 * prompt.
 */

const GUTTER = '  │ ';
const MIN_COLUMNS = 40;
const MAX_COLUMNS = 120;

export interface LineOptions {
  readonly columns: number;
}

const LABEL_CHARS = 10;

/** `  name    text`, further lines below the text. What a terminal would obey in it is written out. */
export function fieldLines(name: string, text: string, options: LineOptions): string[] {
  const label = `  ${name}`.padEnd(LABEL_CHARS);
  const parts = broken(visible(text), widthBehind(LABEL_CHARS, options));
  return parts.map((part, index) => `${index === 0 ? label : ' '.repeat(LABEL_CHARS)}${part}`);
}

const widthBehind = (chars: number, { columns }: LineOptions) =>
  Math.min(Math.max(columns, MIN_COLUMNS), MAX_COLUMNS) - chars - 1;

/** Untrusted lines; control characters must be escaped already. */
export function inGutter(lines: readonly string[], options: LineOptions): string[] {
  const width = widthBehind(GUTTER.length, options);
  return lines.flatMap((line) => broken(line, width).map((part) => `${GUTTER}${part}`));
}

/** Parts that take at most `width` columns. */
function broken(line: string, width: number): string[] {
  const parts: string[] = [];
  let part = '';
  let used = 0;
  for (const character of line) {
    const columns = columnsOf(character);
    if (used + columns > width) {
      parts.push(part);
      part = '';
      used = 0;
    }
    part += character;
    used += columns;
  }
  return [...parts, part];
}

const FIRST_WIDE = 0x1100;

/** What may be wide counts as wide. */
export const columnsOf = (character: string) => ((character.codePointAt(0) as number) < FIRST_WIDE ? 1 : 2);
