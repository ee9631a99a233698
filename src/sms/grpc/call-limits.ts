export interface CallLimitsOptions {
  readonly max: number;
  readonly maxPerPeer: number;
  readonly maxAnonymous: number;
  readonly maxAnonymousPerPeer: number;
  readonly anonymousPerSecond: number;
}

/** `flooding`: the peer begins calls faster than anybody who means well. */
export type CallRefusal = 'too_many' | 'flooding';

interface Peer {
  calls: number;
  anonymous: number;
  /** How many anonymous calls it may begin now, as of `atMs`. */
  allowance: number;
  atMs: number;
}

/** A second's worth may come at once, and as much again. */
const BURST_SECONDS = 2;

/** Counts the calls under way: in all, of each peer, and of those who have shown no token. */
export class CallLimits {
  readonly #options: CallLimitsOptions;
  readonly #now: () => number;
  readonly #peers = new Map<string, Peer>();
  #calls = 0;
  #anonymous = 0;

  constructor(options: CallLimitsOptions, now: () => number = () => performance.now()) {
    this.#options = options;
    this.#now = now;
  }

  /** The way to say that the call has ended, or why it must not begin. */
  begin(peerName: string, isAnonymous: boolean): (() => void) | CallRefusal {
    const { max, maxPerPeer, maxAnonymous, maxAnonymousPerPeer } = this.#options;
    const peer = this.#peer(peerName);
    if (isAnonymous && !this.#spend(peer)) return 'flooding';
    const full = this.#calls >= max || peer.calls >= maxPerPeer;
    const crowded = isAnonymous && (this.#anonymous >= maxAnonymous || peer.anonymous >= maxAnonymousPerPeer);
    if (full || crowded) return 'too_many';
    const weight = isAnonymous ? 1 : 0;
    this.#count(peer, 1, weight);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#count(peer, -1, -weight);
    };
  }

  #count(peer: Peer, calls: number, anonymous: number): void {
    this.#calls += calls;
    this.#anonymous += anonymous;
    peer.calls += calls;
    peer.anonymous += anonymous;
  }

  #spend(peer: Peer): boolean {
    const now = this.#now();
    const { anonymousPerSecond } = this.#options;
    const earned = ((now - peer.atMs) / 1000) * anonymousPerSecond;
    peer.allowance = Math.min(anonymousPerSecond * BURST_SECONDS, peer.allowance + earned);
    peer.atMs = now;
    if (peer.allowance < 1) return false;
    peer.allowance -= 1;
    return true;
  }

  #peer(name: string): Peer {
    let peer = this.#peers.get(name);
    if (peer === undefined) {
      this.#forgetQuiet();
      peer = { calls: 0, anonymous: 0, allowance: this.#options.anonymousPerSecond * BURST_SECONDS, atMs: this.#now() };
      this.#peers.set(name, peer);
    }
    return peer;
  }

  /** A peer without calls whose allowance is whole again is like one that never came. */
  #forgetQuiet(): void {
    const before = this.#now() - BURST_SECONDS * 1000;
    for (const [name, { calls, atMs }] of this.#peers) if (calls === 0 && atMs <= before) this.#peers.delete(name);
  }
}
