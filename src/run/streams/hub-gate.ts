import type { StreamEnd } from './stream-client.ts';

/** Must not reject. */
type Enter = (hub: StreamEnd) => Promise<void>;

/** Lets clients wait that come before their guest. */
export class HubGate {
  #hub: StreamEnd | null = null;
  #waiting: Enter[] = [];

  open(hub: StreamEnd): void {
    this.#hub = hub;
    for (const enter of this.#waiting.splice(0)) void enter(hub);
  }

  /** Whoever waits is bounded by the connections that its listener takes. */
  whenOpen(enter: Enter): void {
    if (this.#hub === null) this.#waiting.push(enter);
    else void enter(this.#hub);
  }
}
