import { domainToUnicode } from 'node:url';
import {
  type FormContent,
  type FormField,
  type FormOption,
  type FormValue,
  fieldProblem,
} from '../../agent/mcp/client/elicitation/form.ts';
import type {
  ElicitationAnswer,
  ElicitationDecider,
  ElicitationRequest,
} from '../../agent/mcp/client/elicitation/question.ts';
import { visible } from '../../base/text.ts';
import {
  CTRL_C,
  CTRL_D,
  columnsOf,
  fieldLines,
  inGutter,
  type LineOptions,
  PLAIN_TEXT,
  type PromptPorts,
  type PromptTerminal,
  PromptTurns,
  SETTLE_MS,
} from './prompt-terminal.ts';

/** Of one form, before it is given up. */
export const MAX_WRONG_ENTRIES = 8;

type FormRequest = Extract<ElicitationRequest, { mode: 'form' }>;

const declined: ElicitationAnswer = { action: 'decline' };
const cancelled: ElicitationAnswer = { action: 'cancel' };

/** Asks the user on the terminal what servers request (MCP elicitation), one request at a time. */
export function createElicitationPrompt(ports: PromptPorts, turns = new PromptTurns()): ElicitationDecider {
  return (request) =>
    turns.take(async (waiting) => {
      if (request.signal.aborted) return cancelled;
      let terminal: ReturnType<PromptPorts['open']>;
      try {
        terminal = ports.open();
      } catch {
        return declined; // no terminal
      }
      const conversation = new Conversation(terminal, ports, request.signal);
      try {
        return await answer(conversation, request, waiting);
      } catch (error) {
        if (error instanceof ConversationEnded) return cancelled;
        throw error;
      } finally {
        conversation.close();
        terminal.close();
      }
    });
}

async function answer(
  conversation: Conversation,
  request: ElicitationRequest,
  waiting: number,
): Promise<ElicitationAnswer> {
  const more = waiting === 0 ? '' : ` (${waiting} more after this one)`;
  const title = `spear-run: a server asks for input during a tool call${more}`;
  conversation.say(['', title, ...describeQuestion(request, conversation)]);
  const seconds = Math.max(0, Math.round((request.deadlineMs - Date.now()) / 1_000));
  const no = { n: 'declined', c: 'cancelled' } as const;
  if (request.mode === 'url') {
    const question = `spear-run: d when done, n to decline, c to cancel (${seconds} s): `;
    const key = await conversation.key(question, { d: 'done', ...no });
    return key === 'd' ? { action: 'accept' } : key === 'n' ? declined : cancelled;
  }
  const question = `spear-run: y to fill it in, n to decline, c to cancel (${seconds} s): `;
  const key = await conversation.key(question, { y: 'yes; Ctrl-D declines', ...no });
  return key === 'y' ? fillIn(conversation, request) : key === 'n' ? declined : cancelled;
}

async function fillIn(conversation: Conversation, request: FormRequest): Promise<ElicitationAnswer> {
  const attempts = { left: MAX_WRONG_ENTRIES };
  for (;;) {
    const content = await readForm(conversation, request, attempts);
    if (!('content' in content)) return content;
    conversation.say(describeContent(content.content, conversation));
    const answers = { y: 'sent', e: 'edit', n: 'declined' } as const;
    const key = await conversation.key('spear-run: send it? y, e to edit, n to decline: ', answers);
    if (key !== 'e') return key === 'y' ? { action: 'accept', ...content } : declined;
  }
}

async function readForm(
  conversation: Conversation,
  { fields }: FormRequest,
  attempts: { left: number },
): Promise<{ readonly content: FormContent } | ElicitationAnswer> {
  const content: [string, FormValue][] = [];
  for (const [index, field] of fields.entries()) {
    conversation.say(describeField(field, `${index + 1} of ${fields.length}`, conversation));
    const entry = await readField(conversation, field, attempts);
    if ('action' in entry) return entry;
    if (entry.value !== null) content.push([field.name, entry.value]);
  }
  return { content: Object.fromEntries(content) };
}

async function readField(
  conversation: Conversation,
  field: FormField,
  attempts: { left: number },
): Promise<{ readonly value: FormValue | null } | ElicitationAnswer> {
  for (;;) {
    const typed = await conversation.line('> ');
    if (typed === null) return declined;
    const entry = readEntry(field, typed);
    if ('value' in entry) return entry;
    attempts.left -= 1;
    if (attempts.left === 0) {
      conversation.say([`spear-run: cancelled after ${MAX_WRONG_ENTRIES} invalid entries`]);
      return cancelled;
    }
    conversation.say([`spear-run: the value ${entry.problem}`]);
  }
}

/* Text of an elicitation prompt. Untrusted lines are escaped and stand behind the gutter. */

/** More would scroll the name of the server off the screen. */
const MAX_MESSAGE_LINES = 40;
const BOLD = '\u001b[1m';
const NOT_BOLD = '\u001b[22m';

/** Server, tool, message and requested fields. */
export function describeQuestion(request: ElicitationRequest, options: LineOptions): string[] {
  const field = (name: string, text: string) => fieldLines(name, text, options);
  return [
    ...(request.task === null ? [] : field('task', request.task)),
    ...field('server', request.server),
    ...field('tool', request.tool),
    '  message of the server:',
    ...messageLines(request.message, options),
    ...(request.mode === 'form' ? describeForm(request.fields, options) : describeAddress(request.url, options)),
  ];
}

function messageLines(message: string, options: LineOptions): string[] {
  const lines = inGutter(message.split(/\r\n|\n/).map(visible), options);
  if (lines.length <= MAX_MESSAGE_LINES) return lines;
  return [...lines.slice(0, MAX_MESSAGE_LINES), `  … ${lines.length - MAX_MESSAGE_LINES} more lines`];
}

function describeForm(fields: readonly FormField[], options: LineOptions): string[] {
  return [
    `  it asks for ${fields.length === 1 ? 'one field' : `${fields.length} fields`}:`,
    ...fields.flatMap((field) => inGutter([fieldLine(field)], options)),
    '  the server receives what you type: do not enter a password, key or card number',
  ];
}

const fieldLine = (field: FormField) =>
  `${visible(field.name)}${field.required ? ' (required)' : ''}: ${visible(fieldKind(field))}`;

/** One field, before it is filled in. */
export function describeField(field: FormField, place: string, options: LineOptions): string[] {
  const words = [field.title, field.description].filter((text) => text !== null).map(visible);
  const choices = field.kind === 'choice' || field.kind === 'choices' ? field.options : [];
  const listed = choices.map(({ value, title }, index) => {
    return `${index + 1}  ${visible(title === null ? value : `${title} (${value})`)}`;
  });
  const withDefault = field.default === null ? '' : `, Enter for ${visible(JSON.stringify(field.default))}`;
  const left = field.default === null && !field.required ? ', Enter to skip' : '';
  return [`  field ${place}`, ...inGutter([`${fieldLine(field)}${withDefault}${left}`, ...words, ...listed], options)];
}

/** The values to be sent, as typed. */
export function describeContent(content: FormContent, options: LineOptions): string[] {
  const lines = Object.entries(content).map(([name, value]) => `${visible(name)}: ${visible(JSON.stringify(value))}`);
  return ['  to be sent to the server:', ...inGutter(lines.length === 0 ? ['nothing'] : lines, options)];
}

/** The host is what the user decides about, so it is bold. */
function describeAddress(address: string, options: LineOptions): string[] {
  const { host, hostname } = new URL(address);
  const read = domainToUnicode(hostname);
  const lookalike =
    read === hostname || read === '' ? [] : fieldLines('reads', `${read} (non-ASCII host name)`, options);
  return [
    '  it asks you to open this address yourself:',
    ...inGutter([visible(address)], options),
    ...fieldLines('host', host, options).map((line) => `${BOLD}${line}${NOT_BOLD}`),
    ...lookalike,
  ];
}

export type FormEntry = { readonly value: FormValue | null } | { readonly problem: string };

/** Value of a typed line; null: field omitted. An empty line means the default, if there is one. */
export function readEntry(field: FormField, typed: string): FormEntry {
  const text = field.kind === 'text' ? typed : typed.trim();
  if (text === '') {
    if (field.default === null && field.required) return { problem: 'is required' };
    return { value: field.default };
  }
  const value = typedValue(field, text);
  if (value === null) return { problem: kindProblems[field.kind] };
  const problem = fieldProblem(field, value);
  return problem === null ? { value } : { problem };
}

const kindProblems: Readonly<Record<FormField['kind'], string>> = {
  text: 'must be text',
  number: 'must be a number',
  boolean: 'must be y or n',
  choice: 'must be one of the numbers above',
  choices: 'must be numbers from above, separated by commas',
};

/** Null: not a value of this kind. */
function typedValue(field: FormField, text: string): FormValue | null {
  switch (field.kind) {
    case 'text':
      return text;
    case 'number':
      return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
    case 'boolean':
      if (/^(?:y|yes|true)$/i.test(text)) return true;
      return /^(?:n|no|false)$/i.test(text) ? false : null;
    case 'choice':
      return chosen(field.options, text);
    case 'choices': {
      const values = text.split(',').map((part) => chosen(field.options, part.trim()));
      return values.every((value) => value !== null) ? values : null;
    }
  }
}

/** By number or by value. */
function chosen(options: readonly FormOption[], text: string): string | null {
  const byNumber = /^\d+$/.test(text) ? options[Number(text) - 1] : undefined;
  return (byNumber ?? options.find(({ value }) => value === text))?.value ?? null;
}

/** Description of the accepted values. */
export function fieldKind(field: FormField): string {
  switch (field.kind) {
    case 'text':
      return joined(
        field.format === null ? 'text' : `text (${field.format})`,
        range(field.minLength, field.maxLength, 'characters'),
      );
    case 'number':
      return joined(field.integer ? 'whole number' : 'number', range(field.minimum, field.maximum, ''));
    case 'boolean':
      return 'yes or no';
    case 'choice':
      return `one of ${field.options.length}`;
    case 'choices':
      return joined(`some of ${field.options.length}`, range(field.minItems, field.maxItems, ''));
  }
}

const joined = (...parts: readonly string[]) => parts.filter((part) => part !== '').join(', ');

function range(least: number | null, most: number | null, what: string): string {
  if (least === null && most === null) return '';
  const bounds = least === null ? `at most ${most}` : most === null ? `at least ${least}` : `${least} to ${most}`;
  return what === '' ? bounds : `${bounds} ${what}`;
}

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
