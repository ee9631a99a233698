import { abortWith } from '../../../../base/abort.ts';
import type { Question, QuestionReply } from './question.ts';

export const MAX_QUESTIONS_PER_CALL = 10;

/** The call that the questions belong to. */
export interface QuestionContext {
  /** Pauses the time budget of the call while the user answers. */
  stopClock(): void;
  startClock(): void;
  /** Sends the question to the decider. */
  put(question: Question, signal: AbortSignal): Promise<QuestionReply>;
}

/** Questions of a server during one call: bounds their number and cancels them when the call ends. */
export class CallQuestions {
  readonly #call: QuestionContext;
  readonly #ended = new AbortController();
  #count = 0;
  #open = 0;

  constructor(call: QuestionContext) {
    this.#call = call;
  }

  /** `signal`: the server cancels the question. */
  async ask(question: Question, signal: AbortSignal | null): Promise<QuestionReply> {
    if (this.#ended.signal.aborted) return { action: 'cancel', why: null };
    this.#count += 1;
    if (this.#count > MAX_QUESTIONS_PER_CALL) {
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

  /** Cancels open questions; the decider receives the reason. */
  end(reason: Error): void {
    this.#ended.abort(reason);
  }
}
