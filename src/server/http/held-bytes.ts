export interface HeldBytesLimits {
  readonly max: number;
  readonly maxPerPeer: number;
}

/**
 * Counts the bytes of answers that wait for their readers. What several wait for counts once in all, and once for each
 * peer. A peer that waits for nothing else may have an answer of any size.
 */
export class HeldBytes {
  readonly #limits: HeldBytesLimits;
  readonly #all = new Account();
  readonly #peers = new Map<string, Account>();

  constructor(limits: HeldBytesLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#all.bytes;
  }

  /** The way to let go of the answer, or null: there is no room for it now. */
  hold(peer: string, answer: Uint8Array): (() => void) | null {
    const account = this.#peers.get(peer) ?? new Account();
    if (!account.hasRoomFor(answer, this.#limits.maxPerPeer) || !this.#all.hasRoomFor(answer, this.#limits.max)) {
      return null;
    }
    this.#peers.set(peer, account);
    account.add(answer);
    this.#all.add(answer);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#all.remove(answer);
      account.remove(answer);
      if (account.bytes === 0) this.#peers.delete(peer);
    };
  }
}

class Account {
  readonly #holders = new Map<Uint8Array, number>();
  bytes = 0;

  hasRoomFor(answer: Uint8Array, max: number): boolean {
    return this.bytes === 0 || this.#holders.has(answer) || this.bytes + answer.length <= max;
  }

  add(answer: Uint8Array): void {
    if (!this.#holders.has(answer)) this.bytes += answer.length;
    this.#holders.set(answer, (this.#holders.get(answer) ?? 0) + 1);
  }

  remove(answer: Uint8Array): void {
    const left = (this.#holders.get(answer) ?? 1) - 1;
    if (left > 0) this.#holders.set(answer, left);
    else {
      this.#holders.delete(answer);
      this.bytes -= answer.length;
    }
  }
}
