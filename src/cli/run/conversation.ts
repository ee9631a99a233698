import { visible } from '../../base/visible-text.ts';
import { columnsOf } from './prompt-lines.ts';
import { CTRL_C, CTRL_D, PLAIN_TEXT, type PromptPorts, type PromptTerminal, SETTLE_MS } from './prompt-terminal.ts';

const MAX_LINE_CHARS = 4_096;
const CTRL_U = '\u0015';
const ESCAPE = '\u001b';
const ERASE_LINE = '\r\u001b[K';
const backspaces: ReadonlySet<string> = new Set(['\u007f', '\b']);

/** The request was withdrawn, or the terminal was closed. */
export class ConversationEnded extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'ConversationEnded';
  }
}

type Reader = (keys: string) => void;

/** A sequence of questions on the terminal. Keys that are pressed before a question is shown are ignored. */
export class Conversation {
  readonly #terminal: PromptTerminal;
  readonly #ports: Pick<PromptPorts, 'interrupt'>;
  readonly #signal: AbortSignal;
  readonly #giveBack: () => void;
  readonly #ended = Promise.withResolvers<never>();
  #reader: Reader | null = null;
  #isOver = false;

  constructor(terminal: PromptTerminal, ports: Pick<PromptPorts, 'interrupt'>, signal: AbortSignal) {
    this.#terminal = terminal;
    this.#ports = ports;
    this.#signal = signal;
    this.#ended.promise.catch(() => {}); // the reader gets the rejection
    this.#giveBack = terminal.takeKeys(
      (keys) => this.#take(keys),
      () => {
        this.#stop();
        this.#ended.reject(new ConversationEnded('the terminal was closed'));
      },
    );
    signal.addEventListener('abort', this.#withdrawn, { once: true });
    if (signal.aborted) this.#withdrawn();
  }

  get columns(): number {
    return this.#terminal.columns;
  }

  say(lines: readonly string[]): void {
    if (!this.#isOver) this.#terminal.write(`${PLAIN_TEXT}${lines.map((line) => `${line}\n`).join('')}`);
  }

  /** One of these keys. Several keys at once were pasted. @throws ConversationEnded */
  async key<Key extends string>(question: string, answers: Readonly<Record<Key, string>>): Promise<Key> {
    await this.#settled();
    this.#terminal.write(`${PLAIN_TEXT}${question}`);
    const pressed = await this.#read<Key>((keys, resolve) => {
      const key = (keys.length > 1 ? keys.trimEnd() : keys).toLowerCase();
      const known = key === CTRL_D ? 'n' : key;
      if (Object.hasOwn(answers, known)) resolve(known as Key);
    });
    this.#terminal.write(`${answers[pressed]}\n`);
    return pressed;
  }

  /** A line as it was typed; null: Ctrl-D. @throws ConversationEnded */
  async line(question: string): Promise<string | null> {
    let typed = '';
    const draw = () => {
      const room = Math.max(1, this.#terminal.columns - question.length - 1);
      this.#terminal.write(`${ERASE_LINE}${question}${lastColumns(visible(typed), room)}`);
    };
    this.#terminal.write(PLAIN_TEXT);
    draw();
    const line = await this.#read<string | null>((keys, resolve) => {
      // A cursor or function key.
      if (keys.startsWith(ESCAPE)) return;
      for (const character of keys) {
        if (character === '\r' || character === '\n') return resolve(typed); // what was pasted behind it is dropped
        if (character === CTRL_D && typed === '') return resolve(null);
        if (character === CTRL_U) typed = '';
        else if (backspaces.has(character)) typed = [...typed].slice(0, -1).join('');
        else if (character >= ' ' && typed.length < MAX_LINE_CHARS) typed += character;
      }
      draw();
    });
    this.#terminal.write(line === null ? 'declined\n' : '\n');
    return line;
  }

  /** Releases the keyboard. */
  close(): void {
    this.#signal.removeEventListener('abort', this.#withdrawn);
    this.#stop();
  }

  readonly #withdrawn = (): void => {
    const why = this.#signal.reason instanceof Error ? this.#signal.reason.message : 'the request was withdrawn';
    if (!this.#isOver) this.#terminal.write(`\nspear-run: ${visible(why)}\n`);
    this.#stop();
    this.#ended.reject(new ConversationEnded(why));
  };

  async #settled(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const settled = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, SETTLE_MS);
    });
    try {
      await Promise.race([settled, this.#ended.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #read<T>(read: (keys: string, resolve: (value: T) => void) => void): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    this.#reader = (keys) => read(keys, resolve);
    try {
      return await Promise.race([promise, this.#ended.promise]);
    } finally {
      this.#reader = null;
    }
  }

  #take(keys: string): void {
    if (this.#isOver) return;
    if (!keys.includes(CTRL_C)) {
      this.#reader?.(keys);
      return;
    }
    // Not an answer: that would let the guest continue until the run ends.
    this.#terminal.write('interrupted\n');
    this.#stop();
    this.#ports.interrupt();
  }

  #stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#giveBack();
  }
}

/** The end of a text that fits. */
function lastColumns(text: string, columns: number): string {
  const characters = [...text];
  let used = 0;
  let from = characters.length;
  while (from > 0) {
    used += columnsOf(characters[from - 1] as string);
    if (used > columns) break;
    from -= 1;
  }
  return characters.slice(from).join('');
}
