import type { RecalledValues } from '../../port/guest-spec.ts';
import { type Chance, systemChance } from './chance.ts';

/** Clocks and dice that give what they gave once, as long as it lasts; clocks go on from there. Timers run as ever. */
export class RecalledChance implements Chance {
  readonly #values: RecalledValues;
  #walls = 0;
  #monotonics = 0;
  #dice = 0;
  #wallAhead = 0;
  #monotonicAhead = 0n;

  constructor(values: RecalledValues) {
    this.#values = values;
  }

  wallMs(): number {
    const given = this.#values.wallMs[this.#walls++];
    if (given === undefined) return systemChance.wallMs() + this.#wallAhead;
    this.#wallAhead = given - systemChance.wallMs();
    return given;
  }

  monotonicNs(): bigint {
    const given = this.#values.monotonicNs[this.#monotonics++];
    if (given === undefined) return systemChance.monotonicNs() + this.#monotonicAhead;
    this.#monotonicAhead = given - systemChance.monotonicNs();
    return given;
  }

  fillRandom(bytes: Uint8Array): void {
    const given = this.#values.random.subarray(this.#dice, this.#dice + bytes.byteLength);
    this.#dice += given.byteLength;
    if (given.byteLength < bytes.byteLength) systemChance.fillRandom(bytes);
    bytes.set(given);
  }

  randomI64(): bigint {
    const bytes = new Uint8Array(8);
    this.fillRandom(bytes);
    return new DataView(bytes.buffer).getBigInt64(0);
  }

  after(ms: number, fire: () => void): () => void {
    return systemChance.after(ms, fire);
  }
}
