import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { BackendError, type ChatRequest } from '../../agent/chat/backend.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { cutText, startOf } from '../../base/text.ts';
import type { RecordedRequest } from './recorded-history.ts';

/** How a recorded run was tested. */
export type TestKind = 'replay' | 'module' | 'policy';

/**
 * `diverged`: the replay found nondeterminism. `request`, `call`, `question`, `output`, `end`: the changed guest sends another
 * model request, tool call or registry query, prints something else, or ends differently. `denied`, `approval`, `allowed`:
 * policy denies a call that was made, requires an approval for it, or allows a call that was denied.
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

/** The first difference between a run and its recording. */
export interface RunDifference {
  readonly by: TestKind;
  readonly kind: DifferenceKind;
  /** Position in the run: a request, a call, or a byte of the output. */
  readonly where: string;
  /** Content of the journal; untrusted. */
  readonly recorded: string;
  /** What it would be now; untrusted. */
  readonly now: string;
}

export interface TestedRun {
  readonly file: string;
  /** Null if the journal is unusable. */
  readonly run: string | null;
  readonly task: string | null;
  /** `unjudged`: no given guest or policy applies to the run. */
  readonly verdict: 'same' | 'differs' | 'unusable' | 'unjudged';
  readonly difference: RunDifference | null;
  /** Why the journal is unusable or was not tested; null: neither. */
  readonly problem: string | null;
  /** Whether the journal ends before the run did; the run was tested up to there. */
  readonly unfinished: boolean;
  /** Tools that were offered to the model, never called, and would no longer be offered: `server/tool`. */
  readonly noLongerShown: readonly string[];
}

/** Result of one test of one run. */
export type Finding = Pick<TestedRun, 'verdict' | 'difference' | 'problem' | 'unfinished' | 'noLongerShown'>;

export const same = (unfinished = false): Finding => ({
  verdict: 'same',
  difference: null,
  problem: null,
  unfinished,
  noLongerShown: [],
});

export const differs = (difference: RunDifference): Finding => ({ ...same(), verdict: 'differs', difference });

export const unusable = (problem: string): Finding => ({ ...same(), verdict: 'unusable', problem });

export const untested = (problem: string): Finding => ({ ...same(), verdict: 'unjudged', problem });

const SHOWN_CHARS = 240;

/** Result of a run with a changed guest. The first result counts and ends the guest. */
export class Outcome {
  readonly #ending = new AbortController();
  #found: Finding | null = null;

  /** Aborts when the result is known. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get found(): Finding | null {
    return this.#found;
  }

  /** Records a difference. Returns an error for the pending request of the guest, which ends now. */
  differs({ recorded, now, ...about }: Omit<RunDifference, 'by'>): BackendError {
    const texts = { recorded: cutText(recorded, SHOWN_CHARS), now: cutText(now, SHOWN_CHARS) };
    return this.#settle(differs({ by: 'module', ...about, ...texts }));
  }

  /** The journal ends here, and nothing differed up to this point. */
  ends(why = 'the journal ends here'): BackendError {
    return this.#settle(same(true), why);
  }

  #settle(found: Finding, why = 'the run differs from the recorded one from here on'): BackendError {
    this.#found ??= found;
    this.#ending.abort();
    return new BackendError('judged', why, { retryable: false });
  }
}

/** How long a response waits for an earlier one: a changed guest may never request the earlier one. */
const PATIENCE_MS = 250;

/** Delivers model responses in their recorded order, independent of the order of requests. */
export class AnswerOrder {
  readonly #given = new Set<number>();
  /** All responses before this one were delivered. */
  #next = 0;
  readonly #waiting = new Set<() => void>();

  /** Waits until all earlier responses were delivered, then for the recorded gap. */
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
      patience.catch(() => {}); // aborted below
    } finally {
      over.abort();
      this.#waiting.delete(look);
    }
  }
}

/** Characters shown around the first difference of two texts. */
const BEFORE_CHARS = 24;
const CONTEXT_CHARS = 160;

export interface TwoTexts {
  readonly what: string;
  readonly recorded: string;
  readonly now: string;
}

/** First difference between a request and the recorded one; null: none. */
export function requestDifference(recorded: RecordedRequest, request: ChatRequest): TwoTexts | null {
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

/** Excerpts of both texts around their first difference. */
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
