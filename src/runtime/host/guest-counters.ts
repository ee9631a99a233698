import { COMPUTED_AT, COUNTERS, namedCounts, sharedCounts } from '../guest/binding/hostcall-counts.ts';
import { COUNTER_GUESTS } from '../port/guest-spec.ts';

/** What the guests of one thread count. Each has little, so that many share a memory: one of its own would cost more. */
export class GuestCounters {
  readonly #share: (block: number, counters: Float64Array<SharedArrayBuffer>) => void;
  readonly #blocks: Float64Array<SharedArrayBuffer>[] = [];
  #free: number[] = [];

  /** `share`: gives the thread one more. */
  constructor(share: (block: number, counters: Float64Array<SharedArrayBuffer>) => void) {
    this.#share = share;
  }

  /** A place for a guest's, all 0. */
  take(): number {
    const place = this.#free.pop() ?? this.#more();
    this.#of(place).fill(0);
    return place;
  }

  /** Precondition: the guest counts no more. */
  give(place: number): void {
    this.#free.push(place);
  }

  hostcalls(place: number): Record<string, number> {
    return namedCounts(this.#of(place));
  }

  /** Null: the thread told what cannot be. */
  computedMs(place: number): number | null {
    const computed = this.#of(place)[COMPUTED_AT] as number;
    return computed >= 0 ? computed : null;
  }

  #of(place: number): Float64Array {
    const block = this.#blocks[Math.floor(place / COUNTER_GUESTS)] as Float64Array;
    const at = (place % COUNTER_GUESTS) * COUNTERS;
    return block.subarray(at, at + COUNTERS);
  }

  #more(): number {
    const counters = sharedCounts(COUNTER_GUESTS);
    const block = this.#blocks.push(counters) - 1;
    this.#share(block, counters);
    const first = block * COUNTER_GUESTS;
    this.#free = Array.from({ length: COUNTER_GUESTS - 1 }, (_, index) => first + COUNTER_GUESTS - 1 - index);
    return first;
  }
}
