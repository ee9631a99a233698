import type { RecordedValues } from '../../port/guest-spec.ts';

/** What a guest's thread does not compute itself: time and dice. A guest gets them from nowhere else. */
export interface DeterministicSources {
  /** Milliseconds since the Unix epoch. */
  wallMs(): number;
  /** Nanoseconds of a clock that only rises. */
  monotonicNs(): bigint;
  fillRandom(bytes: Uint8Array): void;
  randomI64(): bigint;
  /** Calls once after so many milliseconds, unless what it gives is called before. */
  after(ms: number, fire: () => void): () => void;
}

let crypto: typeof import('node:crypto') | undefined;

/** Loaded when the first guest asks: it would cost every other one some milliseconds of its start. */
function fillRandom(bytes: NodeJS.ArrayBufferView): void {
  crypto ??= process.getBuiltinModule('node:crypto');
  crypto.randomFillSync(bytes);
}

const random = new BigInt64Array(64);
let unused = 0;

/** One call into the system's generator serves many: it is the call that is slow. */
function randomI64(): bigint {
  if (unused === 0) {
    fillRandom(random);
    unused = random.length;
  }
  unused--;
  const value = random[unused] as bigint;
  random[unused] = 0n;
  return value;
}

/** As the system gives them. */
export const systemSources: DeterministicSources = {
  wallMs: () => Date.now(),
  monotonicNs: () => process.hrtime.bigint(),
  fillRandom,
  randomI64,
  after(ms, fire) {
    const timer = setTimeout(fire, ms);
    return () => clearTimeout(timer);
  },
};

/** Clocks and dice that give what they gave once, as long as it lasts; clocks go on from there. Timers run as ever. */
export class RecordedSources implements DeterministicSources {
  readonly #values: RecordedValues;
  #walls = 0;
  #monotonics = 0;
  #dice = 0;
  #wallAhead = 0;
  #monotonicAhead = 0n;

  constructor(values: RecordedValues) {
    this.#values = values;
  }

  wallMs(): number {
    const given = this.#values.wallMs[this.#walls++];
    if (given === undefined) return systemSources.wallMs() + this.#wallAhead;
    this.#wallAhead = given - systemSources.wallMs();
    return given;
  }

  monotonicNs(): bigint {
    const given = this.#values.monotonicNs[this.#monotonics++];
    if (given === undefined) return systemSources.monotonicNs() + this.#monotonicAhead;
    this.#monotonicAhead = given - systemSources.monotonicNs();
    return given;
  }

  fillRandom(bytes: Uint8Array): void {
    const given = this.#values.random.subarray(this.#dice, this.#dice + bytes.byteLength);
    this.#dice += given.byteLength;
    if (given.byteLength < bytes.byteLength) systemSources.fillRandom(bytes);
    bytes.set(given);
  }

  randomI64(): bigint {
    const bytes = new Uint8Array(8);
    this.fillRandom(bytes);
    return new DataView(bytes.buffer).getBigInt64(0);
  }

  after(ms: number, fire: () => void): () => void {
    return systemSources.after(ms, fire);
  }
}
