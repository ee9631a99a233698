/** Reads events with a time limit for each, without losing the one that comes after the limit. */
export class EventReader<Event> {
  readonly #events: AsyncIterator<Event>;
  #pending: Promise<void> | null = null;
  #arrived: IteratorResult<Event> | null = null;
  #failure: { readonly error: unknown } | null = null;
  #wake = () => {};

  constructor(events: AsyncIterator<Event>) {
    this.#events = events;
  }

  /** Rejects if the watch has failed at its start. */
  async settle(): Promise<void> {
    this.#read();
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#failure !== null) throw this.#failure.error;
  }

  async next(silenceMs: number | null): Promise<Event | 'silence' | 'ended'> {
    this.#read();
    if (this.#arrived === null && this.#failure === null) await this.#arrivalWithin(silenceMs);
    if (this.#failure !== null) throw this.#failure.error;
    const step = this.#arrived;
    if (step === null) return 'silence';
    this.#arrived = null;
    this.#pending = null;
    return step.done === true ? 'ended' : step.value;
  }

  close(): void {
    this.#events.return?.().catch(() => {});
  }

  #read(): void {
    this.#pending ??= this.#events.next().then(
      (step) => {
        this.#arrived = step;
        this.#wake();
      },
      (error: unknown) => {
        this.#failure = { error };
        this.#wake();
      },
    );
  }

  #arrivalWithin(silenceMs: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = silenceMs === null ? undefined : setTimeout(resolve, silenceMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
