import type { AloneSpec } from './guest-spec.ts';

/** The first that a guest thread is told: plain data, nothing secret. */
export interface ThreadSpec {
  /** The only guest of a thread of its own, whose module follows when it is compiled; null: many come and go. */
  readonly guest: AloneSpec | null;
  /** Null: the thread has one guest. */
  readonly shared: SharedThreadSpec | null;
}

export interface SharedThreadSpec {
  /** Its first word is set when the guest that computes is to give way. */
  readonly turns: WebAssembly.Memory;
  /** The linear memory that all guests together may have. */
  readonly memoryBytes: number;
}

/** Of what a thread's `turns` has: is somebody to give way, and which guest had the thread last. */
export const turnsAt = { giveWay: 0, holder: 1 } as const;

/** Guests of a thread whose counters are in one memory. */
export const COUNTER_GUESTS = 256;
