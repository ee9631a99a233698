import type { RecordedValues } from '../../port/guest-spec.ts';

/** The only source of time and entropy of a guest. */
export interface DeterministicSources {
  /** Milliseconds since the Unix epoch. */
  wallMs(): number;
  /** Nanoseconds of the monotonic clock. */
  monotonicNs(): bigint;
  fillRandom(bytes: Uint8Array): void;
  randomI64(): bigint;
  /** Starts a timer; the returned function cancels it. */
  after(ms: number, fire: () => void): () => void;
}

let crypto: typeof import('node:crypto') | undefined;

/** node:crypto is loaded on first use: it would cost every start some milliseconds. */
function fillRandom(bytes: NodeJS.ArrayBufferView): void {
  crypto ??= process.getBuiltinModule('node:crypto');
  crypto.randomFillSync(bytes);
}

const random = new BigInt64Array(64);
let unused = 0;

/** Buffered, because each call of the system's generator is slow. */
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

/** Returns recorded values while there are any; clocks then continue from the last one. Timers are real. */
export class RecordedSources implements DeterministicSources {
  readonly #values: RecordedValues;
  #wallAt = 0;
  #monotonicAt = 0;
  #randomAt = 0;
  #wallAhead = 0;
  #monotonicAhead = 0n;

  constructor(values: RecordedValues) {
    this.#values = values;
  }

  wallMs(): number {
    const recorded = this.#values.wallMs[this.#wallAt++];
    if (recorded === undefined) return systemSources.wallMs() + this.#wallAhead;
    this.#wallAhead = recorded - systemSources.wallMs();
    return recorded;
  }

  monotonicNs(): bigint {
    const recorded = this.#values.monotonicNs[this.#monotonicAt++];
    if (recorded === undefined) return systemSources.monotonicNs() + this.#monotonicAhead;
    this.#monotonicAhead = recorded - systemSources.monotonicNs();
    return recorded;
  }

  fillRandom(bytes: Uint8Array): void {
    const recorded = this.#values.random.subarray(this.#randomAt, this.#randomAt + bytes.byteLength);
    this.#randomAt += recorded.byteLength;
    if (recorded.byteLength < bytes.byteLength) systemSources.fillRandom(bytes);
    bytes.set(recorded);
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
