/** Over HTTP a notification is a request of its own; closing at once would take it back. */
export class NotificationsOnTheWay {
  readonly #sending = new Set<Promise<void>>();

  async track(sending: Promise<void>): Promise<void> {
    this.#sending.add(sending);
    try {
      await sending;
    } finally {
      this.#sending.delete(sending);
    }
  }

  /** Waits until those of now have arrived or failed, and no longer than `timeoutMs`. */
  async arrived(timeoutMs: number): Promise<void> {
    if (this.#sending.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.allSettled(this.#sending), timeout]);
    clearTimeout(timer);
  }
}
