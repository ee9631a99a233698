import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { ReplayLog } from '../../durable/guest/replay-log.ts';
import { type GuestRequest, type HostMessage, type HostPosted, type HostReply, isFinalReply } from '../../port/port.ts';
import type { WaitPoint } from '../descriptors/readiness.ts';

/** A power of two. */
const LOOKS_PER_DRAIN = 64;

const nothing = () => {};
const noTransfer: ArrayBuffer[] = [];

/** Takes what the host says about one call. */
export type Receiver = (reply: HostReply) => void;

/** What one guest says to the host, and hears from it about its calls. */
export class HostLink {
  readonly #port: ThreadPort;
  readonly #wait: WaitPoint;
  readonly #guest: number;
  readonly #replayLog: ReplayLog | null;
  /** What came while the replayLog played. */
  #held: HostMessage[] = [];
  // Made when they are needed: thousands of guests wait, and most of them for a clock or for one answer.
  #receivers: Map<number, Receiver> | null = null;
  #settled: Map<number, () => void> | null = null;
  #standing: Set<number> | null = null;
  /** For the host, but nothing to wake it for. */
  #later: unknown[] = [];
  #idleLooks = 0;
  #nextCall = 1;
  #unanswered = 0;
  /** How much the host has said. */
  heard = 0;
  /** The call on top of which new ones are made: 0 outside any callback. */
  parent = 0;

  constructor(port: ThreadPort, guest: number, wait: WaitPoint, replayLog: ReplayLog | null = null) {
    this.#port = port;
    this.#guest = guest;
    this.#wait = wait;
    this.#replayLog = replayLog;
    replayLog?.attach({
      deliver: (message) => this.#deliver(message),
      takeHeld: () => this.#takeHeld(),
      post: (request) => this.#ship(replayLog, [guest, 0, 0, ...request], noTransfer),
    });
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
    if (settled !== nothing) {
      this.#settled ??= new Map();
      this.#settled.set(call, settled);
    }
    this.#listen(call, receiver);
    this.#post([this.#guest, call, this.parent, ...request]);
    return call;
  }

  /** Asks the host to go on telling of something until {@link unsubscribe}: no answer of it is the last. */
  subscribe(request: GuestRequest, receiver: Receiver): number {
    const call = this.#nextCall++;
    this.#standing ??= new Set();
    this.#standing.add(call);
    this.#listen(call, receiver);
    this.#post([this.#guest, call, this.parent, ...request]);
    return call;
  }

  unsubscribe(call: number, request: GuestRequest): void {
    if (!this.#standing?.delete(call)) return;
    this.forget(call);
    this.tell(call, request);
  }

  /** Tells the host something about a call, or about the guest (0). */
  tell(call: number, request: GuestRequest, transfer = noTransfer): void {
    this.#post([this.#guest, call, this.parent, ...request], transfer);
  }

  /**
   * Tells the host something about the guest just before the next message, whichever that is. For what only makes room:
   * nothing that takes some can overtake it.
   */
  tellLater(request: GuestRequest): void {
    this.#later.push([this.#guest, 0, this.parent, ...request]);
  }

  forget(call: number): void {
    this.#receivers?.delete(call);
  }

  /**
   * Takes in what has arrived without waiting. A guest that polls never lets the event loop run, so a call that is about
   * to say "not yet" looks here first.
   */
  drain(): void {
    // Unasked the host seldom speaks, so while nothing is awaited it is enough to look now and then.
    const isIdle = this.#unanswered === 0 && (this.#standing?.size ?? 0) === 0;
    if (isIdle && (this.#idleLooks++ & (LOOKS_PER_DRAIN - 1)) !== 0) return;
    if (this.#replayLog === null) this.#takeArrived();
    else this.#replayLog.looks(() => this.#takeArrived());
  }

  close(): void {
    this.#receivers = null;
    this.#settled = null;
  }

  #listen(call: number, receiver: Receiver): void {
    this.#receivers ??= new Map();
    this.#receivers.set(call, receiver);
  }

  /** In one piece with what was put off: each message may have to wake the host's thread. */
  #post(message: unknown[], transfer = noTransfer): void {
    if (this.#replayLog !== null) this.#postRecorded(this.#replayLog, message, transfer);
    else if (this.#later.length === 0) this.#port.post(message, transfer);
    else this.#port.post([[...this.#later, message]], transfer);
    if (this.#later.length > 0) this.#later = [];
  }

  #postRecorded(replayLog: ReplayLog, message: unknown[], transfer: ArrayBuffer[]): void {
    for (const earlier of this.#later) replayLog.posts(earlier as unknown[]);
    replayLog.posts(message);
    this.#ship(replayLog, this.#later.length === 0 ? message : [[...this.#later, message]], transfer);
  }

  /** With what the replayLog has written so far. */
  #ship(replayLog: ReplayLog, posted: unknown[], transfer: ArrayBuffer[]): void {
    const written = replayLog.unshipped();
    this.#port.post(written === '' ? posted : [written, posted], transfer);
  }

  #takeArrived(): void {
    if (this.#held.length > 0) this.#takeHeld();
    this.#port.takeArrived();
  }

  #takeHeld(): void {
    const held = this.#held;
    this.#held = [];
    for (const message of held) this.#take(message);
  }

  /** Takes what the host says about a call. */
  receive(message: HostMessage): void {
    this.heard += 1;
    this.#take(message);
  }

  #take(message: HostMessage): void {
    if (this.#replayLog !== null) {
      // What is held comes first, also in the moment after the replayLog has played its last.
      if (this.#replayLog.isPlaying || this.#held.length > 0) {
        this.#held.push(message);
        return;
      }
      this.#replayLog.took(message);
    }
    this.#deliver(message);
  }

  #deliver([, call, ...reply]: HostMessage): void {
    this.#receivers?.get(call)?.(reply);
    if (isFinalReply(reply)) {
      this.#unanswered -= 1;
      this.#settled?.get(call)?.();
      this.#settled?.delete(call);
    }
    this.#wait.notify();
  }
}

/** Messages that are taken in one event: guests that they start, end or wake have their turn before the next ones. */
const MAX_AT_ONCE = 4;

/** Takes what the host says to one guest. */
export interface MessageTarget {
  hear(message: HostMessage): void;
}

/** The guest thread's end of the port: one for all its guests, whose messages it gives to whom they are for. */
export class ThreadPort {
  readonly #port: MessagePort;
  readonly #guests = new Map<number, MessageTarget>();

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (posted: HostPosted) => {
      this.#take(posted);
      this.takeArrived(MAX_AT_ONCE);
    });
  }

  attach(guest: number, hears: MessageTarget): void {
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

/** How often it is looked within the time. */
const LOOKS = 4;

export interface IdleReporterOptions {
  readonly replayLog: ReplayLog;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  /** The host is told of a guest that has waited so long. */
  readonly afterMs: number;
}

/**
 * Tells the host of a guest with user streams that waits and waits. Looked at from outside: waits begin and end too often
 * to set a timer for each.
 */
export class IdleReporter {
  readonly #parts: IdleReporterOptions;
  #timer: NodeJS.Timeout | undefined;
  #place = '';
  #since = 0;

  constructor(parts: IdleReporterOptions) {
    this.#parts = parts;
  }

  /** The guest has a user stream, or hears of those that clients use. */
  begin(): void {
    this.#timer ??= setInterval(() => this.#look(), this.#parts.afterMs / LOOKS);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const { replayLog, wait, link, afterMs } = this.#parts;
    const now = performance.now();
    const { place } = replayLog;
    const isSame = place === this.#place && wait.isWaiting && !replayLog.isPlaying && replayLog.hasToldAll;
    this.#place = place;
    if (!isSame) this.#since = now;
    if (now - this.#since < afterMs) return;
    this.#since = now;
    replayLog.tells(['rests', link.heard]);
  }
}
