import type { Chance } from '../durable/guest/chance.ts';
import type { Leash } from './leash.ts';

/** Time and dice of one guest of many: what it waits for ends with it. */
export class LeashedChance implements Chance {
  readonly #leash: Leash;
  readonly #drawn: Chance;

  constructor(leash: Leash, drawn: Chance) {
    this.#leash = leash;
    this.#drawn = drawn;
  }

  wallMs(): number {
    return this.#drawn.wallMs();
  }

  monotonicNs(): bigint {
    return this.#drawn.monotonicNs();
  }

  fillRandom(bytes: Uint8Array): void {
    this.#drawn.fillRandom(bytes);
  }

  randomI64(): bigint {
    return this.#drawn.randomI64();
  }

  after(ms: number, fire: () => void): () => void {
    const forget = this.#leash.atEnd(() => stop());
    const stop = this.#drawn.after(ms, () => {
      forget();
      fire();
    });
    return () => {
      forget();
      stop();
    };
  }
}
