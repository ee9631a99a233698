/** What a guest's thread does not compute itself: time and dice. A guest gets them from nowhere else. */
export interface Chance {
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
export const systemChance: Chance = {
  wallMs: () => Date.now(),
  monotonicNs: () => process.hrtime.bigint(),
  fillRandom,
  randomI64,
  after(ms, fire) {
    const timer = setTimeout(fire, ms);
    return () => clearTimeout(timer);
  },
};
