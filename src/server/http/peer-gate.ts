import { Listeners } from '../../base/listeners.ts';
import { PeerRates } from './peer-rates.ts';

export interface PeerGateLimits {
  readonly connectionsPerSecond: number;
  /** Requests and calls without a valid token. */
  readonly asksPerSecond: number;
}

/**
 * Who may come in and who may ask, on all ports together. A peer without a token that asks faster than anybody who
 * means well is cut off: its connections that do nothing go, and there are no new ones until it has been quiet. To say no
 * at the door costs next to nothing; to read first and then say no is what a flood lives on.
 */
export class PeerGate {
  readonly #connections: PeerRates;
  readonly #asks: PeerRates;
  readonly #asksPerSecond: number;
  readonly #cutOff = new Listeners<string>();

  constructor({ connectionsPerSecond, asksPerSecond }: PeerGateLimits) {
    this.#asksPerSecond = asksPerSecond;
    this.#connections = new PeerRates(connectionsPerSecond);
    this.#asks = new PeerRates(asksPerSecond);
  }

  mayConnect(peer: string): boolean {
    return !this.#asks.isSpent(peer) && this.#connections.spend(peer);
  }

  /** For a request or call without a valid token. */
  mayAsk(peer: string): boolean {
    if (this.#asks.spend(peer)) return true;
    this.#cutOff.tell(peer);
    return false;
  }

  /** The peer sent many requests without waiting for an answer. That costs it all that it may ask in a second. */
  offended(peer: string): void {
    this.#asks.charge(peer, this.#asksPerSecond);
    this.#cutOff.tell(peer);
  }

  onCutOff(listener: (peer: string) => void): void {
    this.#cutOff.add(listener);
  }
}
