import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { BackendError, type ChatRequest } from '../../agent/chat/backend.ts';
import { cutText, startOf } from '../../base/cut-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { RecalledRequest } from './recollection.ts';

/** What a recorded run was measured by. */
export type JudgedBy = 'replay' | 'module' | 'policy';

/**
 * `diverged`: the replayed guest did something else. `request`, `call`, `question`, `output`, `end`: the changed guest asks
 * the model, calls a tool, asks about servers, prints or ends otherwise. `denied`, `approval`, `allowed`: policy says no to
 * a call that was made, wants a person to say yes, or lets one through that was refused.
 */
export type DifferenceKind =
  | 'diverged'
  | 'request'
  | 'call'
  | 'question'
  | 'output'
  | 'end'
  | 'denied'
  | 'approval'
  | 'allowed';

/** The first place where a run would be another one. */
export interface RunDifference {
  readonly by: JudgedBy;
  readonly kind: DifferenceKind;
  /** In the run: which request, which call, which byte of the output. */
  readonly where: string;
  /** What stands in the journal. Content of the run: not to be trusted. */
  readonly recorded: string;
  /** What it would be now. The same holds. */
  readonly now: string;
}

export interface JudgedRun {
  readonly file: string;
  /** Null where the journal cannot be used. */
  readonly run: string | null;
  readonly task: string | null;
  /** `unjudged`: nothing that was given is about it. */
  readonly verdict: 'same' | 'differs' | 'unusable' | 'unjudged';
  readonly difference: RunDifference | null;
  /** Why it cannot be used, or was not judged; null: neither. */
  readonly problem: string | null;
  /** Whether its journal ends before the run did: it was judged as far as that. */
  readonly unfinished: boolean;
  /** Tools that the model was shown, never called, and would not be shown any more: `server/tool`. */
  readonly noLongerShown: readonly string[];
}

/** What one way of judging found. */
export type Finding = Pick<JudgedRun, 'verdict' | 'difference' | 'problem' | 'unfinished' | 'noLongerShown'>;

export const same = (unfinished = false): Finding => ({
  verdict: 'same',
  difference: null,
  problem: null,
  unfinished,
  noLongerShown: [],
});

export const differs = (difference: RunDifference): Finding => ({ ...same(), verdict: 'differs', difference });

export const unusable = (problem: string): Finding => ({ ...same(), verdict: 'unusable', problem });

export const unjudged = (problem: string): Finding => ({ ...same(), verdict: 'unjudged', problem });

const SHOWN_CHARS = 240;

/** What a changed guest comes to: the first thing that is said of it counts, and ends it. */
export class Outcome {
  readonly #ending = new AbortController();
  #found: Finding | null = null;

  /** Aborted when there is nothing more to learn. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get found(): Finding | null {
    return this.#found;
  }

  /** Gives what whoever asked is told; nobody looks at it any more. */
  differs({ recorded, now, ...about }: Omit<RunDifference, 'by'>): BackendError {
    const texts = { recorded: cutText(recorded, SHOWN_CHARS), now: cutText(now, SHOWN_CHARS) };
    return this.#settle(differs({ by: 'module', ...about, ...texts }));
  }

  /** The journal ends here: as far as it goes, nothing is different. */
  ends(why = 'the journal ends here'): BackendError {
    return this.#settle(same(true), why);
  }

  #settle(found: Finding, why = 'the run differs from the recorded one from here on'): BackendError {
    this.#found ??= found;
    this.#ending.abort();
    return new BackendError('judged', why, { retryable: false });
  }
}

/** How long an answer waits for one that came before it: the guest may be one that never asks for that. */
const PATIENCE_MS = 250;

/** Gives answers of a model in the order in which they came, whichever of them is asked for first. */
export class AnswerOrder {
  readonly #given = new Set<number>();
  /** All before it were given. */
  #next = 0;
  readonly #waiting = new Set<() => void>();

  /** Waits until all answers before this one were given, and then as long as it came after the last of them. */
  async turn(order: number, gapMs: number, signal: AbortSignal): Promise<void> {
    if (order > this.#next) await this.#earlier(order, signal);
    if (gapMs > 0) await wait(gapMs, undefined, { signal });
    this.#given.add(order);
    while (this.#given.delete(this.#next)) this.#next += 1;
    for (const wake of [...this.#waiting]) wake();
  }

  async #earlier(order: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = () => {
      if (order <= this.#next) resolve();
    };
    const over = new AbortController();
    this.#waiting.add(look);
    try {
      const patience = wait(PATIENCE_MS, undefined, { signal: AbortSignal.any([signal, over.signal]) });
      await Promise.race([promise, patience]);
      patience.catch(() => {}); // it is ended below
    } finally {
      over.abort();
      this.#waiting.delete(look);
    }
  }
}

/** How much of two texts is shown around the first character in which they differ. */
const BEFORE_CHARS = 24;
const CONTEXT_CHARS = 160;

export interface TwoTexts {
  readonly what: string;
  readonly recorded: string;
  readonly now: string;
}

/** In what a request differs from the recorded one; null: in nothing. */
export function requestDifference(recorded: RecalledRequest, request: ChatRequest): TwoTexts | null {
  if (hash('sha256', JSON.stringify(request)) === recorded.asked.sha256) return null;
  const { messages, tools, ...head } = request;
  return (
    messageDifference(recorded.messages, messages) ??
    headDifference(recorded.asked.head ?? {}, head) ??
    toolDifference(recorded.tools, namesOf(tools)) ?? {
      what: 'tools',
      recorded: recorded.tools.join(', '),
      now: 'the same names, but a description or parameters changed',
    }
  );
}

function messageDifference(before: readonly JsonObject[], now: readonly JsonObject[]): TwoTexts | null {
  const length = Math.max(before.length, now.length);
  for (let at = 0; at < length; at++) {
    const [one, other] = [before[at], now[at]];
    if (JSON.stringify(one) === JSON.stringify(other)) continue;
    const [recorded, said] = aroundDifference(messageText(one), messageText(other));
    return { what: `message ${at + 1}`, recorded, now: said };
  }
  return null;
}

function headDifference(before: JsonObject, now: JsonObject): TwoTexts | null {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  const key = keys.find((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
  if (key === undefined) return null;
  const [recorded, said] = aroundDifference(valueText(before[key]), valueText(now[key]));
  return { what: key, recorded, now: said };
}

function toolDifference(before: readonly string[], now: readonly string[]): TwoTexts | null {
  const gone = before.filter((name) => !now.includes(name));
  const added = now.filter((name) => !before.includes(name));
  if (gone.length === 0 && added.length === 0) return null;
  const parts = [
    gone.length === 0 ? '' : `without ${gone.join(', ')}`,
    added.length === 0 ? '' : `with ${added.join(', ')}`,
  ];
  return { what: 'tools', recorded: before.join(', ') || 'none', now: parts.filter(Boolean).join(', ') };
}

const namesOf = (tools: JsonValue | undefined): string[] =>
  Array.isArray(tools)
    ? tools.map((tool) => String(isJsonObject(tool) && isJsonObject(tool.function) ? tool.function.name : ''))
    : [];

function messageText(message: JsonObject | undefined): string {
  if (message === undefined) return 'none';
  const { role, content, ...more } = message;
  const said = typeof content === 'string' ? content : JSON.stringify(content ?? null);
  const rest = Object.keys(more).length === 0 ? '' : ` ${JSON.stringify(more)}`;
  return `${role}: ${said}${rest}`;
}

const valueText = (value: JsonValue | undefined): string => (value === undefined ? 'none' : JSON.stringify(value));

/** Both texts from shortly before the first character in which they differ. */
export function aroundDifference(one: string, other: string): [string, string] {
  let at = 0;
  while (at < one.length && at < other.length && one[at] === other[at]) at += 1;
  const from = Math.max(0, at - BEFORE_CHARS);
  const shown = (text: string) => {
    const cut = startOf(text.slice(from), CONTEXT_CHARS);
    return `${from > 0 ? '…' : ''}${cut}${from + cut.length < text.length ? '…' : ''}`;
  };
  return [shown(one), shown(other)];
}
