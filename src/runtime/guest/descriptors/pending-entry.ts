import { type Failure, fail } from '../../abi/errno.ts';
import { ERR, HUP, IN } from './readiness.ts';
import { FdEntry } from './table.ts';

/** Counts what is kept for a guest. */
export interface AnswerCount {
  answerBytes: number;
}

/** UTF-8, or text that becomes UTF-8 on its way into the guest's memory. */
export type Answer = Uint8Array | string;

/** In the guest's memory. */
export const bytesOf = (answer: Answer): number =>
  typeof answer === 'string' ? Buffer.byteLength(answer) : answer.byteLength;

/** A descriptor of something that the host is working on: it becomes done once, or canceled. */
export abstract class PendingEntry extends FdEntry {
  /** What a read gives now: EAGAIN until it is done or canceled. */
  #body: Answer | Failure = fail.EAGAIN;
  #metrics = '{}';
  readonly #onCancel: () => void;
  #count: AnswerCount | undefined;
  /** What {@link #count} has of it. */
  #counted = 0;

  /** `onCancel` tells the host to stop; it is called at most once, and never after the result came. */
  constructor(onCancel: () => void) {
    super();
    this.#onCancel = onCancel;
  }

  get pending(): boolean {
    return this.#body === fail.EAGAIN;
  }

  /** The answer counts until the descriptor is closed; a call that has none passes no count. */
  complete(body: Answer, metrics: string, count?: AnswerCount): void {
    if (!this.pending) return;
    this.#body = body;
    this.#metrics = metrics;
    if (!count) return;
    this.#count = count;
    this.#counted = bytesOf(body);
    count.answerBytes += this.#counted;
  }

  override cancel(): void {
    if (!this.pending) return;
    this.#body = fail.ECANCELED;
    this.#onCancel();
  }

  /** The same bytes on every call. */
  body(): Answer | Failure {
    return this.#body;
  }

  metrics(): string | Failure {
    return this.pending ? fail.EAGAIN : this.#metrics;
  }

  readiness(): number {
    if (this.#body === fail.EAGAIN) return 0;
    return this.#body === fail.ECANCELED ? ERR | HUP : IN;
  }

  release(): void {
    this.cancel();
    if (this.#count) this.#count.answerBytes -= this.#counted;
    this.#count = undefined;
  }
}
