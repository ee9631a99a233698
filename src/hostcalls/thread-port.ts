import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { HostMessage, HostPosted } from '../protocol/port.ts';

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
      this.takeArrived();
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

  /** All of it at once: an event for each would cost more than most messages. */
  takeArrived(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
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
