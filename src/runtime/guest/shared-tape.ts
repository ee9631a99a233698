import type { TapeUnderway } from '../durable/guest/tape.ts';
import { MAX_OWED, MAX_UNDERWAY } from '../port/guest-spec.ts';
import { trapGuest } from './uncatchable.ts';

/**
 * What of the tape of one guest of many the host has not taken. It is posted all the same, and the guest waits at its
 * next turn, for its thread must not.
 */
export class SharedTape implements TapeUnderway {
  #underway = 0;
  #taken: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;

  waitFor(chars: number): void {
    if (this.#underway === 0 || this.#underway + chars <= MAX_UNDERWAY + MAX_OWED) return;
    trapGuest('the guest reads clocks and random values without yielding, faster than its journal is written');
  }

  add(chars: number): void {
    this.#underway += chars;
  }

  room(): Promise<void> | null {
    if (this.#underway <= MAX_UNDERWAY) return null;
    this.#taken ??= Promise.withResolvers<void>();
    return this.#taken.promise;
  }

  /** The host has taken so much. */
  taken(chars: number): void {
    this.#underway -= chars;
    if (this.#underway <= MAX_UNDERWAY) this.close();
  }

  /** Nothing waits any more. */
  close(): void {
    this.#taken?.resolve();
    this.#taken = null;
  }
}
