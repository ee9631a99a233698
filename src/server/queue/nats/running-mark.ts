/** Most runs that end this soon are never seen running by anybody: their end tells it all. */
const SOON_MS = 100;

/**
 * Tells everybody that a run runs here: soon, or as soon as something needs it, and once. Every node hears of it, so a
 * run that is over before costs a write and a message to each of them less.
 */
export class RunningMark {
  readonly #write: () => Promise<boolean>;
  readonly #decided: () => void;
  readonly #timer: NodeJS.Timeout;
  #written: Promise<boolean> | null = null;

  /** `write` gives false where the run was ended by somebody; `decided`: it is written now, or never. */
  constructor(write: () => Promise<boolean>, decided: () => void) {
    this.#write = write;
    this.#decided = decided;
    this.#timer = setTimeout(() => void this.written(), SOON_MS).unref();
  }

  /** False: somebody has ended the run, and nothing of it may leave. */
  written(): Promise<boolean> {
    return this.#decide(this.#write);
  }

  /** The end is about to be written, and says it too. False as with {@link written}. */
  skip(): Promise<boolean> {
    return this.#decide(async () => true);
  }

  #decide(how: () => Promise<boolean>): Promise<boolean> {
    if (this.#written === null) {
      clearTimeout(this.#timer);
      this.#decided();
      this.#written = how();
    }
    return this.#written;
  }
}
