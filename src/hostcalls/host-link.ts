import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { WaitPoint } from '../fd/readiness.ts';
import type { GuestRequest, HostMessage, HostReply } from '../protocol/port.ts';

/** A power of two. */
const LOOKS_PER_DRAIN = 64;

const nothing = () => {};

/** Takes what the host says about one call. */
export type Receiver = (reply: HostReply) => void;

/** The guest thread's end of the port. */
export class HostLink {
  readonly #port: MessagePort;
  readonly #wait: WaitPoint;
  readonly #guest: number;
  readonly #receivers = new Map<number, Receiver>();
  readonly #settled = new Map<number, () => void>();
  #listener: Receiver | undefined;
  #idleLooks = 0;
  #nextCall = 1;
  #unanswered = 0;
  /** The call on top of which new ones are made: 0 outside any callback. */
  parent = 0;

  constructor(port: MessagePort, guest: number, wait: WaitPoint) {
    this.#port = port;
    this.#guest = guest;
    this.#wait = wait;
    port.on('message', (message) => this.#deliver(message));
  }

  /** Calls whose last word from the host has not come: it still holds what they brought, also of one that was forgotten. */
  get unanswered(): number {
    return this.#unanswered;
  }

  /**
   * Asks the host for something that will be answered; the receiver stays until {@link forget}, `settled` is called with
   * the last word in any case: only then has the host let go of what the call brought.
   */
  call(request: GuestRequest, receiver: Receiver, settled: () => void = nothing): number {
    const call = this.#nextCall++;
    this.#unanswered += 1;
    if (settled !== nothing) this.#settled.set(call, settled);
    this.#receivers.set(call, receiver);
    this.#port.postMessage([this.#guest, call, this.parent, ...request]);
    return call;
  }

  /** Takes what the host says to the guest as a whole (call 0). */
  listen(receiver: Receiver): void {
    this.#listener = receiver;
  }

  /** Tells the host something about a call, or about the guest (0). */
  tell(call: number, request: GuestRequest, transfer: ArrayBuffer[] = []): void {
    this.#port.postMessage([this.#guest, call, this.parent, ...request], transfer);
  }

  forget(call: number): void {
    this.#receivers.delete(call);
  }

  /**
   * Takes in what has arrived without waiting. A guest that polls never lets the event loop run, so a call that is about
   * to say "not yet" looks here first.
   */
  drain(): void {
    // Unasked the host seldom speaks, so while nothing is awaited it is enough to look now and then.
    if (this.#unanswered === 0 && (this.#idleLooks++ & (LOOKS_PER_DRAIN - 1)) !== 0) return;
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      this.#deliver(next.message);
    }
  }

  close(): void {
    this.#receivers.clear();
    this.#listener = undefined;
    this.#port.close();
  }

  #deliver([, call, ...reply]: HostMessage): void {
    const receiver = call === 0 ? this.#listener : this.#receivers.get(call);
    receiver?.(reply);
    if (call !== 0 && reply[0] !== 'tool') {
      this.#unanswered -= 1;
      this.#settled.get(call)?.();
      this.#settled.delete(call);
    }
    this.#wait.notify();
  }
}
