import type { Tape } from '../../durable/guest/tape.ts';
import { type GuestRequest, type HostMessage, type HostReply, isLastWord } from '../../port/port.ts';
import type { WaitPoint } from '../descriptors/readiness.ts';
import type { ThreadPort } from './thread-port.ts';

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
  readonly #tape: Tape | null;
  /** What came while the tape played. */
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

  constructor(port: ThreadPort, guest: number, wait: WaitPoint, tape: Tape | null = null) {
    this.#port = port;
    this.#guest = guest;
    this.#wait = wait;
    this.#tape = tape;
    tape?.attach({
      deliver: (message) => this.#deliver(message),
      takeHeld: () => this.#takeHeld(),
      post: (request) => this.#ship(tape, [guest, 0, 0, ...request], noTransfer),
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
    if (this.#tape === null) this.#takeArrived();
    else this.#tape.looks(() => this.#takeArrived());
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
    if (this.#tape !== null) this.#postTaped(this.#tape, message, transfer);
    else if (this.#later.length === 0) this.#port.post(message, transfer);
    else this.#port.post([[...this.#later, message]], transfer);
    if (this.#later.length > 0) this.#later = [];
  }

  #postTaped(tape: Tape, message: unknown[], transfer: ArrayBuffer[]): void {
    for (const earlier of this.#later) tape.posts(earlier as unknown[]);
    tape.posts(message);
    this.#ship(tape, this.#later.length === 0 ? message : [[...this.#later, message]], transfer);
  }

  /** With what the tape has written so far. */
  #ship(tape: Tape, posted: unknown[], transfer: ArrayBuffer[]): void {
    const written = tape.unshipped();
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
    if (this.#tape !== null) {
      // What is held comes first, also in the moment after the tape has played its last.
      if (this.#tape.isPlaying || this.#held.length > 0) {
        this.#held.push(message);
        return;
      }
      this.#tape.took(message);
    }
    this.#deliver(message);
  }

  #deliver([, call, ...reply]: HostMessage): void {
    this.#receivers?.get(call)?.(reply);
    if (isLastWord(reply)) {
      this.#unanswered -= 1;
      this.#settled?.get(call)?.();
      this.#settled?.delete(call);
    }
    this.#wait.notify();
  }
}
