import { calls } from '../abi/calls.ts';
import { COMPUTED_MS_INDEX, COUNTER_GUESTS, COUNTERS } from '../port/guest-spec.ts';

type Counters = Float64Array<SharedArrayBuffer>;

/** Counters of so many guests, in memory that host and guest thread share. */
export const newCounters = (guests: number): Counters =>
  new Float64Array(new SharedArrayBuffer(guests * COUNTERS * Float64Array.BYTES_PER_ELEMENT));

/** Hostcalls by name. The counting thread runs untrusted code, so values that cannot be a count are left out. */
export function namedCounts(counts: Float64Array): Record<string, number> {
  const named: Record<string, number> = {};
  for (const [index, { name }] of calls.entries()) {
    const count = counts[index] as number;
    if (count > 0 && Number.isSafeInteger(count)) named[name] = count;
  }
  return named;
}

/** Counters of the guests of one shared thread, in blocks of memory: a SharedArrayBuffer per guest would cost more. */
export class GuestCounters {
  readonly #share: (block: number, counters: Counters) => void;
  readonly #blocks: Counters[] = [];
  #free: number[] = [];

  /** `share` gives the thread another block. */
  constructor(share: (block: number, counters: Counters) => void) {
    this.#share = share;
  }

  /** Reserves zeroed counters; returns their index. */
  take(): number {
    const index = this.#free.pop() ?? this.#addBlock();
    this.#of(index).fill(0);
    return index;
  }

  /** Precondition: the guest has ended. */
  give(index: number): void {
    this.#free.push(index);
  }

  hostcalls(index: number): Record<string, number> {
    return namedCounts(this.#of(index));
  }

  /** Null: the thread wrote an impossible value. */
  computedMs(index: number): number | null {
    const computed = this.#of(index)[COMPUTED_MS_INDEX] as number;
    return computed >= 0 ? computed : null;
  }

  #of(index: number): Float64Array {
    const block = this.#blocks[Math.floor(index / COUNTER_GUESTS)] as Float64Array;
    const at = (index % COUNTER_GUESTS) * COUNTERS;
    return block.subarray(at, at + COUNTERS);
  }

  #addBlock(): number {
    const counters = newCounters(COUNTER_GUESTS);
    const block = this.#blocks.push(counters) - 1;
    this.#share(block, counters);
    const first = block * COUNTER_GUESTS;
    this.#free = Array.from({ length: COUNTER_GUESTS - 1 }, (_, index) => first + COUNTER_GUESTS - 1 - index);
    return first;
  }
}
