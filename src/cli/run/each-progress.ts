const EVERY_MS = 200;
const BAR_CHARS = 24;
const ERASE_LINE = '\r\x1b[K';

/** Progress line of a batch, on a terminal only. */
export class EachProgress {
  readonly #total: number;
  readonly #startedAt = performance.now();
  readonly #isShown = process.stderr.isTTY === true;
  #shownAt = Number.NEGATIVE_INFINITY;
  done = 0;
  failed = 0;
  skipped = 0;
  tokens = 0;

  constructor(total: number) {
    this.#total = total;
  }

  show(): void {
    const now = performance.now();
    if (!this.#isShown || now - this.#shownAt < EVERY_MS) return;
    this.#shownAt = now;
    process.stderr.write(ERASE_LINE + this.#line());
  }

  /** Erases the line and returns the summary. */
  end(): string {
    if (this.#isShown) process.stderr.write(ERASE_LINE);
    const skipped = this.skipped > 0 ? `, ${this.skipped} skipped` : '';
    return `${this.done} of ${this.#total} done, ${this.failed} failed${skipped}, ${this.tokens} tokens, ${this.#rate().toFixed(1)} per second`;
  }

  #rate(): number {
    return this.done / Math.max(0.001, (performance.now() - this.#startedAt) / 1000);
  }

  #line(): string {
    const over = this.done + this.skipped;
    const filled = this.#total === 0 ? BAR_CHARS : Math.floor((over / this.#total) * BAR_CHARS);
    const bar = '#'.repeat(filled).padEnd(BAR_CHARS, '.');
    const rate = this.#rate();
    const left = rate > 0 ? `${Math.ceil((this.#total - over) / rate)} s left` : '';
    return `[${bar}] ${over}/${this.#total}, ${this.failed} failed, ${this.tokens} tokens, ${rate.toFixed(1)}/s ${left}`;
  }
}
