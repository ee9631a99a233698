import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { WaitPoint } from '../fd/readiness.ts';
import type { GuestRequest, HostMessage, HostReply } from '../protocol/port.ts';

/** Takes what the host says about one call. */
export type Receiver = (reply: HostReply) => void;

/** The guest thread's end of the port. */
export class HostLink {
  readonly #port: MessagePort;
  readonly #wait: WaitPoint;
  readonly #guest: number;
  readonly #receivers = new Map<number, Receiver>();
  #nextCall = 1;
  /** The call on top of which new ones are made: 0 outside any callback. */
  parent = 0;

  constructor(port: MessagePort, guest: number, wait: WaitPoint) {
    this.#port = port;
    this.#guest = guest;
    this.#wait = wait;
    port.on('message', (message) => this.#deliver(message));
  }

  /** Asks the host for something that will be answered; the receiver stays until {@link forget}. */
  call(request: GuestRequest, receiver: Receiver): number {
    const call = this.#nextCall++;
    this.#receivers.set(call, receiver);
    this.#port.postMessage([this.#guest, call, this.parent, ...request]);
    return call;
  }

  /** Takes what the host says to the guest as a whole (call 0). */
  listen(receiver: Receiver): void {
    this.#receivers.set(0, receiver);
  }

  /** Tells the host something about a call, or about the guest (0). */
  tell(call: number, request: GuestRequest): void {
    this.#port.postMessage([this.#guest, call, this.parent, ...request]);
  }

  forget(call: number): void {
    this.#receivers.delete(call);
  }

  /**
   * Takes in what has arrived without waiting. A guest that polls never lets the event loop run, so a call that is about
   * to say "not yet" looks here first.
   */
  drain(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      this.#deliver(next.message);
    }
  }

  close(): void {
    this.#receivers.clear();
    this.#port.close();
  }

  #deliver([, call, ...reply]: HostMessage): void {
    this.#receivers.get(call)?.(reply);
    this.#wait.notify();
  }
}
