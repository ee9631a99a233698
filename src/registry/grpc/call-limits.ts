export interface CallLimitsOptions {
  readonly max: number;
  readonly maxPerPeer: number;
  readonly maxAnonymous: number;
  readonly maxAnonymousPerPeer: number;
  /** Asked before every anonymous call. */
  readonly mayRequest: (peer: string) => boolean;
}

/** `flooding`: the peer begins calls faster than anybody who means well. */
export type CallRefusal = 'too_many' | 'flooding';

interface Peer {
  calls: number;
  anonymous: number;
}

/** Counts the calls under way: in all, of each peer, and of those who have shown no token. */
export class CallLimits {
  readonly #options: CallLimitsOptions;
  readonly #peers = new Map<string, Peer>();
  #calls = 0;
  #anonymous = 0;

  constructor(options: CallLimitsOptions) {
    this.#options = options;
  }

  /** The way to say that the call has ended, or why it must not begin. */
  begin(peerName: string, isAnonymous: boolean): (() => void) | CallRefusal {
    const { max, maxPerPeer, maxAnonymous, maxAnonymousPerPeer, mayRequest } = this.#options;
    if (isAnonymous && !mayRequest(peerName)) return 'flooding';
    const peer = this.#peers.get(peerName) ?? { calls: 0, anonymous: 0 };
    const full = this.#calls >= max || peer.calls >= maxPerPeer;
    const crowded = isAnonymous && (this.#anonymous >= maxAnonymous || peer.anonymous >= maxAnonymousPerPeer);
    if (full || crowded) return 'too_many';
    const weight = isAnonymous ? 1 : 0;
    this.#peers.set(peerName, peer);
    this.#count(peer, 1, weight);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#count(peer, -1, -weight);
      if (peer.calls === 0) this.#peers.delete(peerName);
    };
  }

  #count(peer: Peer, calls: number, anonymous: number): void {
    this.#calls += calls;
    this.#anonymous += anonymous;
    peer.calls += calls;
    peer.anonymous += anonymous;
  }
}
