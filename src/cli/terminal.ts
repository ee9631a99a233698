import { closeSync, openSync, readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { isatty, ReadStream, WriteStream } from 'node:tty';
import type { PromptTerminal } from './run/prompt-terminal.ts';

const TERMINAL = '/dev/tty';
const STDIN = 0;
const DEFAULT_COLUMNS = 80;

/** Whether prompts are possible: this process has a terminal and runs in its foreground. */
export function hasTerminal(): boolean {
  let fd: number;
  try {
    fd = openSync(TERMINAL, 'r+');
  } catch {
    return false;
  }
  try {
    return isatty(fd) && isInForeground();
  } finally {
    closeSync(fd);
  }
}

/** Reading in the background would stop the process. Known on Linux only; assumed elsewhere. */
function isInForeground(): boolean {
  try {
    // After the command in parentheses: state, parent, process group, session, terminal, foreground group.
    const fields = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    return fields[2] === fields[5];
  } catch {
    return true;
  }
}

/** The controlling terminal, shared by guest stdin and prompts: two readers would each get some of the keys. */
export class Terminal {
  #stdin: SharedInput | null = null;

  /** Guest stdin; null: stdin is not a terminal. */
  guestInput(): Readable | null {
    return this.#shared()?.guest() ?? null;
  }

  /** @throws if there is no terminal, or this process is in its background */
  open(): PromptTerminal & { close(): void } {
    if (!isInForeground()) throw new Error('this process runs in the background of its terminal');
    const screen = new WriteStream(openSync(TERMINAL, 'w'));
    screen.on('error', () => {}); // closed; the keyboard reports it
    const shared = this.#shared();
    return {
      get columns() {
        return screen.columns || DEFAULT_COLUMNS;
      },
      write: (text) => void screen.write(text),
      takeKeys: (onKeys, onLost) => {
        const input = shared?.isOpen ? shared : new SharedInput(new ReadStream(openSync(TERMINAL, 'r')));
        const release = input.takeKeys(onKeys, onLost);
        return () => {
          release();
          if (input !== shared) input.close();
        };
      },
      close: () => screen.destroy(),
    };
  }

  #shared(): SharedInput | null {
    if (!isatty(STDIN)) return null;
    this.#stdin ??= new SharedInput(process.stdin);
    return this.#stdin;
  }
}

/** The one reader of a terminal: input goes to the open prompt, else to the guest when it reads. */
class SharedInput {
  readonly #tty: ReadStream;
  #prompt: { readonly onKeys: (keys: string) => void; readonly onLost: () => void } | null = null;
  #guest: Readable | null = null;
  #guestWaits = false;
  isOpen = true;

  constructor(tty: ReadStream) {
    this.#tty = tty;
    tty.on('data', (chunk: Buffer) => this.#take(chunk));
    for (const event of ['end', 'error', 'close']) tty.on(event, () => this.#lose());
    tty.pause();
  }

  guest(): Readable {
    this.#guest ??= new Readable({
      highWaterMark: 0,
      read: () => {
        this.#guestWaits = true;
        this.#flow();
      },
      destroy: (error, done) => {
        this.#guestWaits = false;
        this.#flow();
        done(error);
      },
    });
    if (!this.isOpen) this.#guest.push(null);
    return this.#guest;
  }

  takeKeys(onKeys: (keys: string) => void, onLost: () => void): () => void {
    this.#prompt = { onKeys, onLost };
    this.#tty.setRawMode(true);
    this.#flow();
    return () => {
      this.#prompt = null;
      if (this.isOpen) this.#tty.setRawMode(false);
      this.#flow();
    };
  }

  close(): void {
    this.#tty.destroy();
  }

  #take(chunk: Buffer): void {
    if (this.#prompt) this.#prompt.onKeys(chunk.toString('utf8'));
    else {
      this.#guestWaits = false;
      this.#guest?.push(chunk);
      this.#flow();
    }
  }

  #flow(): void {
    if (!this.isOpen) return;
    if (this.#prompt || this.#guestWaits) this.#tty.resume();
    else this.#tty.pause();
  }

  #lose(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#prompt?.onLost();
    this.#guest?.push(null);
  }
}
