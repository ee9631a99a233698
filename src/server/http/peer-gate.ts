import { Listeners } from '../../base/listeners.ts';

export interface PeerGateLimits {
  readonly connectionsPerSecond: number;
  /** Requests and calls without a valid token. */
  readonly requestsPerSecond: number;
}

/**
 * Flood protection across all ports of a process: rate limits of new connections and of unauthenticated requests per
 * peer. A peer over its request rate is blocked: listeners close its idle connections, and new ones are rejected until its
 * rate falls. Rejecting a connection costs far less than reading a request first.
 */
export class PeerGate {
  readonly #connections: PeerRates;
  readonly #requests: PeerRates;
  readonly #requestsPerSecond: number;
  readonly #blocked = new Listeners<string>();

  constructor({ connectionsPerSecond, requestsPerSecond }: PeerGateLimits) {
    this.#requestsPerSecond = requestsPerSecond;
    this.#connections = new PeerRates(connectionsPerSecond);
    this.#requests = new PeerRates(requestsPerSecond);
  }

  mayConnect(peer: string): boolean {
    return !this.#requests.isSpent(peer) && this.#connections.spend(peer);
  }

  /** For a request or call without a valid token. */
  mayRequest(peer: string): boolean {
    if (this.#requests.spend(peer)) return true;
    this.#blocked.notify(peer);
    return false;
  }

  /** Blocks a peer that pipelined too many requests, at the cost of one second of its rate. */
  block(peer: string): void {
    this.#requests.charge(peer, this.#requestsPerSecond);
    this.#blocked.notify(peer);
  }

  onBlock(listener: (peer: string) => void): void {
    this.#blocked.add(listener);
  }
}

interface Bucket {
  /** Tokens left as of `atMs`; negative is a debt. */
  tokens: number;
  atMs: number;
}

/** Token bucket per peer, with a burst of one second. */
export class PeerRates {
  readonly #perSecond: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perSecond: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond;
    this.#now = now;
  }

  /** Takes one token. False: none is left. */
  spend(peer: string): boolean {
    const bucket = this.#bucket(peer);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  /** Takes tokens beyond zero, down to a debt of one second. */
  charge(peer: string, cost: number): void {
    const bucket = this.#bucket(peer);
    bucket.tokens = Math.max(-this.#perSecond, bucket.tokens - cost);
  }

  isSpent(peer: string): boolean {
    return this.#buckets.has(peer) && this.#bucket(peer).tokens < 1;
  }

  #bucket(peer: string): Bucket {
    const now = this.#now();
    let bucket = this.#buckets.get(peer);
    if (bucket === undefined) {
      this.#removeFull(now);
      bucket = { tokens: this.#perSecond, atMs: now };
      this.#buckets.set(peer, bucket);
    }
    const earned = ((now - bucket.atMs) / 1000) * this.#perSecond;
    bucket.tokens = Math.min(this.#perSecond, bucket.tokens + earned);
    bucket.atMs = now;
    return bucket;
  }

  /** Drops full buckets: from the deepest debt a bucket is full after two seconds. */
  #removeFull(now: number): void {
    for (const [peer, { atMs }] of this.#buckets) if (atMs <= now - 2_000) this.#buckets.delete(peer);
  }
}
