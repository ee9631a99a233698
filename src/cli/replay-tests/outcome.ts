import { BackendError } from '../../agent/chat/backend.ts';
import { cutText } from '../../base/cut-text.ts';
import { differs, type Finding, type RunDifference, same } from './judgement.ts';

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
