import type { StreamEnd } from './stream-client.ts';

/** Lets clients wait that come before their guest. */
export class HubGate {
  #hub: StreamEnd | null = null;
  #waiting: ((hub: StreamEnd) => void)[] = [];

  open(hub: StreamEnd): void {
    this.#hub = hub;
    for (const enter of this.#waiting.splice(0)) enter(hub);
  }

  /** Whoever waits is bounded by the connections that its listener takes. */
  whenOpen(enter: (hub: StreamEnd) => void): void {
    if (this.#hub === null) this.#waiting.push(enter);
    else enter(this.#hub);
  }
}
