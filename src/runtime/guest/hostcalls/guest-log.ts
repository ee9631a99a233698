import type { Output } from './output.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;
const INFO = 2;

export interface GuestLogOptions {
  readonly verbose: boolean;
  readonly bytesPerSecond: number;
  readonly now: () => number;
  readonly onFirstDrop: () => void;
}

/**
 * The `log` call: up to info on stdout, warn and error on stderr, below info only if verbose. A token bucket of one second's
 * worth of bytes bounds the rate.
 */
export class GuestLog {
  readonly #output: Output;
  readonly #lowest: number;
  readonly #bytesPerSecond: number;
  readonly #now: () => number;
  readonly #onFirstDrop: () => void;
  #tokens: number;
  #refilledAt: number;
  dropped = 0;

  constructor(output: Output, options: GuestLogOptions) {
    this.#output = output;
    this.#lowest = options.verbose ? 0 : INFO;
    this.#bytesPerSecond = options.bytesPerSecond;
    this.#now = options.now;
    this.#onFirstDrop = options.onFirstDrop;
    this.#tokens = options.bytesPerSecond;
    this.#refilledAt = options.now();
  }

  write(level: number, message: string): void {
    const known = level >= 0 && level < LEVELS.length ? level : INFO;
    if (known < this.#lowest) return;
    const line = `${known === INFO ? '' : `${LEVELS[known]}: `}${withoutLineEnds(message)}\n`;
    const bytes = Buffer.from(line);
    if (!this.#take(bytes.byteLength)) {
      if (this.dropped++ === 0) this.#onFirstDrop();
      return;
    }
    this.#output.write(known > INFO ? 'stderr' : 'stdout', bytes);
  }

  #take(bytes: number): boolean {
    if (bytes > this.#tokens) {
      const now = this.#now();
      const earned = ((now - this.#refilledAt) / 1000) * this.#bytesPerSecond;
      this.#tokens = Math.min(this.#bytesPerSecond, this.#tokens + earned);
      this.#refilledAt = now;
    }
    if (bytes > this.#tokens) return false;
    this.#tokens -= bytes;
    return true;
  }
}

// Not a regular expression, which takes quadratic time for a message of line ends only.
function withoutLineEnds(text: string): string {
  let end = text.length;
  while (text[end - 1] === '\n') end--;
  return text.slice(0, end);
}
