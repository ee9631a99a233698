/** Far more than a server that waits for its answers has open. */
export const MAX_ANSWERS = 32;

/**
 * Over HTTP every answer to a question of the server is a request of its own, and a server can ask faster than they can
 * be sent. Beyond the bound a question gets no answer: whoever asks so much does not wait for any.
 */
export class AnswersOnTheWay {
  #count = 0;

  async send(answer: () => Promise<void>): Promise<void> {
    if (this.#count >= MAX_ANSWERS) return;
    this.#count += 1;
    try {
      await answer();
    } finally {
      this.#count -= 1;
    }
  }
}
