/** Most runs that end this soon are never seen running by anybody: their end tells it all. */
const SOON_MS = 100;

/**
 * Tells everybody that a run runs here: soon, or as soon as something needs it, and once. Every node hears of it, so a
 * run that is over before costs a write and a message to each of them less.
 */
export class RunningMark {
  readonly #write: () => Promise<boolean>;
  readonly #timer: NodeJS.Timeout;
  #written: Promise<boolean> | null = null;

  /** `write` gives false where the run was ended by somebody. */
  constructor(write: () => Promise<boolean>) {
    this.#write = write;
    this.#timer = setTimeout(() => void this.written(), SOON_MS).unref();
  }

  /** False: somebody has ended the run, and nothing of it may leave. */
  written(): Promise<boolean> {
    clearTimeout(this.#timer);
    this.#written ??= this.#write();
    return this.#written;
  }

  /** The end is about to be written, and says it too. False as with {@link written}. */
  skip(): Promise<boolean> {
    clearTimeout(this.#timer);
    this.#written ??= Promise.resolve(true);
    return this.#written;
  }
}
