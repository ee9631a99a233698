import { setTimeout as wait } from 'node:timers/promises';
import { BackendError } from '../../agent/chat/backend.ts';
import { cutText } from '../../base/text.ts';

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
