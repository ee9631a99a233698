import type { Duplex } from 'node:stream';
import type { StreamEnd } from '../run/streams/stream-client.ts';

/** How long a client waits for the guest of a run that was woken for it. */
export const CONNECT_WAIT_MS = 30_000;
/** Clients that wait at one time, of all runs. */
const MAX_WAITING = 1_000;

export interface SocketRefusal {
  readonly status: string;
  /** Nothing of what the client sent. */
  readonly reason: string;
  /** When the client may try again. @default it is not said */
  readonly retryAfterS?: number;
}

interface Waiting {
  readonly socket: Duplex;
  readonly enter: (hub: StreamEnd) => void;
  readonly stop: () => void;
}

/** Clients of user streams whose handshake is answered when the guest of their run is there: one for each run. */
export class WaitingClients {
  readonly #waiting = new Map<string, Waiting>();

  has(run: string): boolean {
    return this.#waiting.has(run);
  }

  /** False: it was turned away. */
  add(run: string, socket: Duplex, enter: (hub: StreamEnd) => void): boolean {
    if (this.#waiting.has(run)) {
      refuseSocket(socket, { status: '409 Conflict', reason: 'another client is waiting for the run' });
      return false;
    }
    if (this.#waiting.size >= MAX_WAITING) {
      refuseSocket(socket, { status: '503 Service Unavailable', reason: 'too many clients are waiting for runs' });
      return false;
    }
    const late = () => {
      const reason = `the run did not start within ${CONNECT_WAIT_MS / 1000} s; it resumes when a slot is free`;
      this.turnAway(run, { status: '503 Service Unavailable', reason });
    };
    const spoke = () =>
      this.turnAway(run, {
        status: '400 Bad Request',
        reason: 'the client sent frames before the handshake was complete',
      });
    const left = () => {
      this.#take(run);
      socket.destroy();
    };
    const timer = setTimeout(late, CONNECT_WAIT_MS);
    // Reading is how one learns that it has gone.
    socket.on('data', spoke).on('end', left).on('close', left);
    const stop = () => {
      clearTimeout(timer);
      socket.off('data', spoke).off('end', left).off('close', left);
    };
    this.#waiting.set(run, { socket, enter, stop });
    return true;
  }

  letIn(run: string, hub: StreamEnd): void {
    this.#take(run)?.enter(hub);
  }

  turnAway(run: string, refusal: SocketRefusal): void {
    const waiting = this.#take(run);
    if (waiting !== undefined) refuseSocket(waiting.socket, refusal);
  }

  close(refusal: SocketRefusal): void {
    for (const run of [...this.#waiting.keys()]) this.turnAway(run, refusal);
  }

  #take(run: string): Waiting | undefined {
    const waiting = this.#waiting.get(run);
    this.#waiting.delete(run);
    waiting?.stop();
    return waiting;
  }
}

export function refuseSocket(socket: Duplex, { status, reason, retryAfterS }: SocketRefusal): void {
  const body = `${reason}\n`;
  const retry = retryAfterS === undefined ? '' : `\r\nretry-after: ${retryAfterS}`;
  const head = `HTTP/1.1 ${status}\r\nconnection: close${retry}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}`;
  // A client that does not close its side would keep its connection.
  socket.end(`${head}\r\n\r\n${body}`, () => socket.destroy());
}
