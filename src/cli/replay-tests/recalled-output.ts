import type { StandardStream } from '../../runtime/port/guest-spec.ts';
import type { Outcome } from './outcome.ts';
import type { Recollection } from './recollection.ts';
import { aroundDifference } from './request-difference.ts';

const streams: readonly StandardStream[] = ['stdout', 'stderr'];

/** Compares what a changed guest prints with what was printed, as it comes. */
export class RecalledOutput {
  readonly #recalled: Recollection;
  readonly #outcome: Outcome;
  readonly #printed: Record<StandardStream, number> = { stdout: 0, stderr: 0 };

  constructor(recalled: Recollection, outcome: Outcome) {
    this.#recalled = recalled;
    this.#outcome = outcome;
  }

  take(stream: StandardStream, bytes: Uint8Array): void {
    const at = this.#printed[stream];
    this.#printed[stream] = at + bytes.byteLength;
    const recorded = this.#recalled.output[stream].subarray(at, at + bytes.byteLength);
    if (recorded.equals(bytes.subarray(0, recorded.byteLength))) {
      if (recorded.byteLength === bytes.byteLength) return;
      if (this.#recalled.end === null) this.#outcome.ends();
    }
    // What else was printed on its line is part of what a person compares.
    const rest = this.#recalled.output[stream].subarray(at);
    this.#differs(stream, at, rest, bytes);
  }

  /** The guest has ended. */
  finish(): void {
    for (const stream of streams) {
      const at = this.#printed[stream];
      const rest = this.#recalled.output[stream].subarray(at);
      if (rest.byteLength > 0) this.#differs(stream, at, rest, new Uint8Array());
    }
  }

  #differs(stream: StandardStream, at: number, recorded: Uint8Array, now: Uint8Array): void {
    const [before, after] = [Buffer.from(recorded).toString(), Buffer.from(now).toString()];
    const [one, other] = aroundDifference(before, after);
    const texts = { recorded: one === '' ? 'nothing more' : one, now: other === '' ? 'nothing more' : other };
    this.#outcome.differs({ kind: 'output', where: `${stream}, from byte ${at}`, ...texts });
  }
}
