import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { HostMessage, HostPosted } from '../../port/port.ts';

/** Messages that are taken in one event: guests that they start, end or wake have their turn before the next ones. */
const MAX_AT_ONCE = 4;

/** Takes what the host says to one guest. */
export interface Hears {
  hear(message: HostMessage): void;
}

/** The guest thread's end of the port: one for all its guests, whose messages it gives to whom they are for. */
export class ThreadPort {
  readonly #port: MessagePort;
  readonly #guests = new Map<number, Hears>();

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (posted: HostPosted) => {
      this.#take(posted);
      this.takeArrived(MAX_AT_ONCE);
    });
  }

  attach(guest: number, hears: Hears): void {
    this.#guests.set(guest, hears);
  }

  /** What still comes for it is dropped. */
  detach(guest: number): void {
    this.#guests.delete(guest);
  }

  post(message: unknown, transfer: ArrayBuffer[]): void {
    this.#port.postMessage(message, transfer);
  }

  /** All of it, or so many messages: an event for each would cost more than most of them. */
  takeArrived(most = Number.POSITIVE_INFINITY): void {
    for (let left = most; left > 0; left--) {
      const next = receiveMessageOnPort(this.#port);
      if (next === undefined) return;
      this.#take(next.message);
    }
  }

  close(): void {
    this.#port.close();
  }

  #take(posted: HostPosted): void {
    if (posted.length > 1) this.#give(posted as HostMessage);
    else for (const message of posted[0] as readonly HostMessage[]) this.#give(message);
  }

  #give(message: HostMessage): void {
    this.#guests.get(message[0])?.hear(message);
  }
}
