import type { Tape } from '../../durable/guest/tape.ts';
import type { WaitPoint } from '../descriptors/readiness.ts';
import type { HostLink } from './host-link.ts';

/** How often it is looked within the time. */
const LOOKS = 4;

export interface RestParts {
  readonly tape: Tape;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  /** The host is told of a guest that has waited so long. */
  readonly afterMs: number;
}

/**
 * Tells the host of a guest with user streams that waits and waits. Looked at from outside: waits begin and end too often
 * to set a timer for each.
 */
export class StreamRest {
  readonly #parts: RestParts;
  #timer: NodeJS.Timeout | undefined;
  #place = '';
  #since = 0;

  constructor(parts: RestParts) {
    this.#parts = parts;
  }

  /** The guest has a user stream, or hears of those that clients use. */
  begin(): void {
    this.#timer ??= setInterval(() => this.#look(), this.#parts.afterMs / LOOKS);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const { tape, wait, link, afterMs } = this.#parts;
    const now = performance.now();
    const { place } = tape;
    const isSame = place === this.#place && wait.isWaiting && !tape.isPlaying && tape.hasToldAll;
    this.#place = place;
    if (!isSame) this.#since = now;
    if (now - this.#since < afterMs) return;
    this.#since = now;
    tape.tells(['rests', link.heard]);
  }
}
