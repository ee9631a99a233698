interface Account {
  /** What may be spent now, as of `atMs`; below 0 it is a debt. */
  allowance: number;
  atMs: number;
}

/** What each peer may do a second. A second's worth may come at once; who goes far beyond has to wait for it. */
export class PeerRates {
  readonly #perSecond: number;
  readonly #now: () => number;
  readonly #accounts = new Map<string, Account>();

  constructor(perSecond: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond;
    this.#now = now;
  }

  /** False: there is nothing left, and nothing was taken. */
  spend(peer: string): boolean {
    const account = this.#account(peer);
    if (account.allowance < 1) return false;
    account.allowance -= 1;
    return true;
  }

  /** Takes more than there may be: at most what comes back in a second. */
  charge(peer: string, cost: number): void {
    const account = this.#account(peer);
    account.allowance = Math.max(-this.#perSecond, account.allowance - cost);
  }

  isSpent(peer: string): boolean {
    return this.#accounts.has(peer) && this.#account(peer).allowance < 1;
  }

  #account(peer: string): Account {
    const now = this.#now();
    let account = this.#accounts.get(peer);
    if (account === undefined) {
      this.#forgetQuiet(now);
      account = { allowance: this.#perSecond, atMs: now };
      this.#accounts.set(peer, account);
    }
    const earned = ((now - account.atMs) / 1000) * this.#perSecond;
    account.allowance = Math.min(this.#perSecond, account.allowance + earned);
    account.atMs = now;
    return account;
  }

  /** A peer whose allowance is whole again is like one that never came: from the deepest debt that takes two seconds. */
  #forgetQuiet(now: number): void {
    for (const [peer, { atMs }] of this.#accounts) if (atMs <= now - 2_000) this.#accounts.delete(peer);
  }
}
