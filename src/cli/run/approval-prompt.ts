import { shortenArguments } from '../../agent/approvals/presentation.ts';
import type {
  ApprovalAnswer,
  ApprovalDecider,
  ApprovalRequest,
  DefinitionChange,
} from '../../agent/approvals/request.ts';
import { type ToolHint, toolHints } from '../../agent/policy/approval-rules.ts';
import type { JsonObject, JsonValue } from '../../base/json.ts';
import { cutText, visible } from '../../base/text.ts';
import {
  CTRL_C,
  CTRL_D,
  fieldLines,
  inGutter,
  type LineOptions,
  PLAIN_TEXT,
  type PromptPorts,
  type PromptTerminal,
  PromptTurns,
  SETTLE_MS,
} from './prompt-terminal.ts';

/** Asks the user on the terminal, one call at a time. */
export function createPromptDecider(ports: PromptPorts, turns = new PromptTurns()): ApprovalDecider {
  return (request) =>
    turns.take(async (waiting) => {
      if (request.signal.aborted) return denied('the call was cancelled');
      return askOn(ports, request, waiting);
    });
}

const denied = (reason: string): ApprovalAnswer => ({ decision: 'deny', reason });

async function askOn(ports: PromptPorts, request: ApprovalRequest, waiting: number): Promise<ApprovalAnswer> {
  let terminal: ReturnType<PromptPorts['open']>;
  try {
    terminal = ports.open();
  } catch (error) {
    return denied(`no prompt is possible: ${(error as Error).message}`);
  }
  try {
    return await new Question(terminal, ports, request, waiting).answer();
  } finally {
    terminal.close();
  }
}

class Question {
  readonly #terminal: PromptTerminal;
  readonly #ports: PromptPorts;
  readonly #request: ApprovalRequest;
  readonly #waiting: number;
  #state: 'settling' | 'asking' | 'ended' = 'settling';
  /** Whether some of the arguments are not on the screen yet. */
  #hidesArguments = false;
  #settled: NodeJS.Timeout | undefined;
  #giveBack = () => {};

  constructor(terminal: PromptTerminal, ports: PromptPorts, request: ApprovalRequest, waiting: number) {
    this.#terminal = terminal;
    this.#ports = ports;
    this.#request = request;
    this.#waiting = waiting;
  }

  async answer(): Promise<ApprovalAnswer> {
    const { promise, resolve } = Promise.withResolvers<ApprovalAnswer>();
    const { signal } = this.#request;
    const withdrawn = () => {
      this.#finish((signal.reason as Error).message);
      resolve(denied('the request was withdrawn'));
    };
    this.#show(false);
    this.#giveBack = this.#terminal.takeKeys(
      (keys) => {
        const answer = this.#state === 'asking' ? this.#read(keys) : null;
        if (answer !== null) resolve(answer);
      },
      () => resolve(denied('the terminal was closed')),
    );
    this.#settle();
    signal.addEventListener('abort', withdrawn, { once: true });
    if (signal.aborted) withdrawn();
    try {
      return await promise;
    } finally {
      clearTimeout(this.#settled);
      signal.removeEventListener('abort', withdrawn);
      this.#finish('no answer');
    }
  }

  #show(full: boolean): void {
    const { columns } = this.#terminal;
    const { lines, hidesArguments } = describeRequest(this.#request, { columns, full });
    this.#hidesArguments = hidesArguments;
    const more = this.#waiting === 0 ? '' : ` (${this.#waiting} more after this one)`;
    const title = `spear-run: a tool call needs your approval${more}`;
    this.#terminal.write(`${PLAIN_TEXT}\n${title}\n${lines.join('\n')}\n`);
  }

  #ask(): void {
    this.#state = 'asking';
    const { shortened } = describeRequest(this.#request, { columns: this.#terminal.columns, full: false });
    const seconds = Math.max(0, Math.round((this.#request.deadlineMs - Date.now()) / 1_000));
    const view = shortened ? ', v to view it in full' : '';
    this.#terminal.write(
      `${PLAIN_TEXT}spear-run: allow it? y once, s for this session, n to deny${view} (${seconds} s): `,
    );
  }

  /** Null: not an answer. Several keys at once were pasted. */
  #read(keys: string): ApprovalAnswer | null {
    switch (keys.length > 1 ? keys.trimEnd() : keys) {
      case 'y':
      case 'Y':
        return this.#allow('allow_once', 'allowed once');
      case 's':
      case 'S':
        return this.#allow('allow_session', 'allowed for this session');
      case 'n':
      case 'N':
      case CTRL_D:
        this.#finish('denied');
        return { decision: 'deny' };
      case 'v':
      case 'V':
        this.#showAll('full view');
        return null;
      case CTRL_C:
        // Not a denial: that would let the guest continue until the run ends.
        this.#finish('interrupted');
        this.#ports.interrupt();
        return null;
      default:
        return null;
    }
  }

  /** Null: the user has to see all arguments first. What the full view cannot show is denied. */
  #allow(decision: 'allow_once' | 'allow_session', text: string): ApprovalAnswer | null {
    if (!this.#hidesArguments) {
      this.#finish(text);
      return { decision };
    }
    this.#showAll('all arguments, before you allow it');
    if (!this.#hidesArguments) return null;
    clearTimeout(this.#settled);
    this.#finish('denied: the arguments cannot be shown');
    return denied(`the arguments have more than ${MAX_FULL_LINES} lines, which the prompt cannot show`);
  }

  #showAll(title: string): void {
    this.#terminal.write(`${title}\n`);
    this.#show(true);
    this.#settle();
  }

  /** Asks after a moment: keys that were pressed before are no answer to what is shown now. */
  #settle(): void {
    this.#state = 'settling';
    this.#settled = setTimeout(() => this.#ask(), SETTLE_MS);
  }

  /** Ends the line of the question and releases the keyboard. */
  #finish(text: string): void {
    if (this.#state === 'ended') return;
    this.#terminal.write(this.#state === 'asking' ? `${text}\n` : `spear-run: ${text}\n`);
    this.#state = 'ended';
    this.#giveBack();
  }
}

/*
 * Text of an approval prompt. Most of it is untrusted: the arguments come from a model, the description from a server.
 * Control and invisible characters are escaped, and every untrusted line is wrapped behind a gutter, so that no text can
 * look like a line of the prompt. Credentials are shown in part, enough to recognize them.
 */

const MAX_LINES = 30;
const MAX_DESCRIPTION_CHARS = 300;
const MAX_CHANGES = 12;
const MAX_CHANGE_CHARS = 200;
/** Bound of the full view of a prompt: a terminal is slow. */
export const MAX_FULL_LINES = 2_000;

export interface TextOptions extends LineOptions {
  /** Everything, and credentials in clear. */
  readonly full: boolean;
  /** Lines of arguments. @default 30, and 2,000 in the full view */
  readonly maxLines?: number;
}

export interface RequestText {
  readonly lines: readonly string[];
  /** Whether something was left out or masked, that `full` would show. */
  readonly shortened: boolean;
  /** Whether some of the arguments are left out or masked, also in the full view. */
  readonly hidesArguments: boolean;
}

const kindLabels = { tool: 'tool', resource: 'reads', prompt: 'prompt' } as const;

/** The request as lines for a terminal. */
export function describeRequest(request: ApprovalRequest, options: TextOptions): RequestText {
  const { definition, changes } = request;
  const args = argumentLines(request.arguments, options);
  const description = options.full ? definition.description : cutText(definition.description, MAX_DESCRIPTION_CHARS);
  const field = (name: string, text: string) => fieldLines(name, text, options);
  const lines = [
    ...(request.task === null ? [] : field('task', request.task)),
    ...field('server', request.server),
    ...field(kindLabels[request.kind], request.tool),
    ...field('why', request.cause.text),
    ...hintLines(definition.annotations),
    ...(description === '' ? [] : ['  description by the server:', ...inGutter([visible(description)], options)]),
    ...(changes.length === 0 ? [] : ['  CHANGED since the last approval:', ...inGutter(changeLines(changes), options)]),
    '  arguments:',
    ...args.lines,
  ];
  const isCut = description !== definition.description || changes.length > MAX_CHANGES;
  return {
    lines,
    shortened: !options.full && (args.hidesArguments || isCut),
    hidesArguments: args.hidesArguments,
  };
}

function hintLines(annotations: ApprovalRequest['definition']['annotations']): string[] {
  const said = toolHints.filter((hint) => typeof annotations?.[hint] === 'boolean');
  if (said.length === 0) return [];
  const text = said.map((hint: ToolHint) => `${hint} ${annotations?.[hint]}`).join(', ');
  return [`  hints   ${text} (claimed by the server)`];
}

function changeLines(changes: readonly DefinitionChange[]): string[] {
  const shown = changes
    .slice(0, MAX_CHANGES)
    .flatMap(({ path, before, after }) => [
      visible(cutText(path, MAX_CHANGE_CHARS)),
      ...(before === undefined ? [] : [`- ${oneLine(before)}`]),
      ...(after === undefined ? [] : [`+ ${oneLine(after)}`]),
    ]);
  return changes.length > MAX_CHANGES ? [...shown, `and ${changes.length - MAX_CHANGES} more changes`] : shown;
}

const oneLine = (value: JsonValue) => visible(cutText(JSON.stringify(value), MAX_CHANGE_CHARS));

function argumentLines(args: JsonObject, options: TextOptions): Pick<RequestText, 'lines' | 'hidesArguments'> {
  const { value, shortened } = options.full ? { value: args, shortened: false } : shortenArguments(args);
  const all = inGutter(JSON.stringify(value, null, 2).split('\n').map(visible), options);
  const most = options.maxLines ?? (options.full ? MAX_FULL_LINES : MAX_LINES);
  if (all.length <= most) return { lines: all, hidesArguments: shortened };
  const note = `  … ${all.length - most} more lines`;
  return { lines: [...all.slice(0, most), note], hidesArguments: true };
}
