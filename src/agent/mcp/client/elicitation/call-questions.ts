import { abortWith } from '../../../../base/abort.ts';
import type { Question, QuestionReply } from './question.ts';

/** Whoever asks more during one call does not want to know. */
export const MAX_QUESTIONS_PER_CALL = 10;

/** The call that questions are asked during. */
export interface QuestionedCall {
  /** Its time stands still while somebody thinks. */
  stopClock(): void;
  startClock(): void;
  /** Puts the question to whoever decides, until the signal aborts. */
  put(question: Question, signal: AbortSignal): Promise<QuestionReply>;
}

/** What a server asks during one call: so often and no more, and nothing after its end. */
export class CallQuestions {
  readonly #call: QuestionedCall;
  readonly #ended = new AbortController();
  #asked = 0;
  #open = 0;

  constructor(call: QuestionedCall) {
    this.#call = call;
  }

  /** `signal`: the server takes it back. */
  async ask(question: Question, signal: AbortSignal | null): Promise<QuestionReply> {
    if (this.#ended.signal.aborted) return { action: 'cancel', why: null };
    this.#asked += 1;
    if (this.#asked > MAX_QUESTIONS_PER_CALL) {
      return {
        action: 'cancel',
        why: `the server sent more than ${MAX_QUESTIONS_PER_CALL} requests for user input during one call`,
      };
    }
    const either = new AbortController();
    const unlink = [this.#ended.signal, signal].map((one) => abortWith(either, one));
    if (this.#open === 0) this.#call.stopClock();
    this.#open += 1;
    try {
      return await this.#call.put(question, either.signal);
    } finally {
      for (const stop of unlink) stop();
      this.#open -= 1;
      if (this.#open === 0 && !this.#ended.signal.aborted) this.#call.startClock();
    }
  }

  /** The call is over; its reason is for whoever was asked. */
  end(reason: Error): void {
    this.#ended.abort(reason);
  }
}
