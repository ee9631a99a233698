/*
 * Guest end of the port: `ThreadPort` dispatches the messages of one thread to its guests, `HostLink` numbers the calls of
 * one guest and delivers their replies, `IdleReporter` reports a guest with user streams that waits for long.
 *
 * Invariants
 * - Messages of one guest arrive at the host in the order in which they were sent.
 * - A call counts as unanswered until its final reply, also if its receiver was removed before.
 * - While the replay log replays, messages of the host are held back, and delivered in order when it continues live.
 * - Journal events are posted together with the guest's next message, so the host records them before it acts on that.
 *
 * Maps are created on first use: thousands of guests wait on a thread, most of them for a timer or for one reply.
 */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { ReplayLog } from '../../durable/guest/replay-log.ts';
import { type GuestRequest, type HostMessage, type HostPosted, type HostReply, isFinalReply } from '../../port/port.ts';
import type { WaitPoint } from '../descriptors/readiness.ts';

/** Calls of {@link HostLink.drain} per poll of the port while nothing is pending. A power of two. */
const DRAINS_PER_POLL = 64;

const nothing = () => {};
const noTransfer: ArrayBuffer[] = [];

/** Receives the replies to one call. */
export type Receiver = (reply: HostReply) => void;

export class HostLink {
  readonly #port: ThreadPort;
  readonly #wait: WaitPoint;
  readonly #guest: number;
  readonly #replayLog: ReplayLog | null;
  /** Messages that arrived during replay. */
  #held: HostMessage[] = [];
  #receivers: Map<number, Receiver> | null = null;
  /** Called with the final reply of a call. */
  #onSettled: Map<number, () => void> | null = null;
  #subscriptions: Set<number> | null = null;
  /** Messages that need not wake the host: posted with the next one. */
  #deferred: unknown[] = [];
  #idleDrains = 0;
  #nextCall = 1;
  #unanswered = 0;
  /** Messages received from the host. */
  received = 0;
  /** The call on top of which new ones are made: 0 outside any callback. */
  parent = 0;

  constructor(port: ThreadPort, guest: number, wait: WaitPoint, replayLog: ReplayLog | null = null) {
    this.#port = port;
    this.#guest = guest;
    this.#wait = wait;
    this.#replayLog = replayLog;
    replayLog?.attach({
      deliver: (message) => this.#deliver(message),
      releaseHeld: () => this.#releaseHeld(),
      post: (request) => this.#postWithEvents(replayLog, [guest, 0, 0, ...request], noTransfer),
    });
  }

  /** Calls without a final reply: the host still holds their data, also after {@link unlisten}. */
  get unanswered(): number {
    return this.#unanswered;
  }

  /**
   * Sends a request that the host answers. The receiver stays until {@link unlisten}. `onSettled` is called with the
   * final reply in any case: only then has the host released the data of the call.
   */
  call(request: GuestRequest, receiver: Receiver, onSettled: () => void = nothing): number {
    const call = this.#nextCall++;
    this.#unanswered += 1;
    if (onSettled !== nothing) {
      this.#onSettled ??= new Map();
      this.#onSettled.set(call, onSettled);
    }
    this.#listen(call, receiver);
    this.#post([this.#guest, call, this.parent, ...request]);
    return call;
  }

  /** Sends a request whose replies continue until {@link unsubscribe}; none of them is final. */
  subscribe(request: GuestRequest, receiver: Receiver): number {
    const call = this.#nextCall++;
    this.#subscriptions ??= new Set();
    this.#subscriptions.add(call);
    this.#listen(call, receiver);
    this.#post([this.#guest, call, this.parent, ...request]);
    return call;
  }

  unsubscribe(call: number, request: GuestRequest): void {
    if (!this.#subscriptions?.delete(call)) return;
    this.unlisten(call);
    this.send(call, request);
  }

  /** Sends a message about a call, or about the guest (call 0). */
  send(call: number, request: GuestRequest, transfer = noTransfer): void {
    this.#post([this.#guest, call, this.parent, ...request], transfer);
  }

  /** Sends a message about the guest together with its next message. For messages that only release something. */
  sendLater(request: GuestRequest): void {
    this.#deferred.push([this.#guest, 0, this.parent, ...request]);
  }

  unlisten(call: number): void {
    this.#receivers?.delete(call);
  }

  /**
   * Takes messages that have arrived, without waiting. A guest that polls never lets the event loop run, so a call drains
   * before it returns "not yet".
   */
  drain(): void {
    const isIdle = this.#unanswered === 0 && (this.#subscriptions?.size ?? 0) === 0;
    if (isIdle && (this.#idleDrains++ & (DRAINS_PER_POLL - 1)) !== 0) return;
    if (this.#replayLog === null) this.#takeArrived();
    else this.#replayLog.poll(() => this.#takeArrived());
  }

  close(): void {
    this.#receivers = null;
    this.#onSettled = null;
  }

  #listen(call: number, receiver: Receiver): void {
    this.#receivers ??= new Map();
    this.#receivers.set(call, receiver);
  }

  /** Posts a message and the deferred ones together: each posted message may have to wake the host thread. */
  #post(message: unknown[], transfer = noTransfer): void {
    const deferred = this.#deferred;
    const log = this.#replayLog;
    if (log !== null) {
      for (const earlier of deferred) log.recordPost(earlier as unknown[]);
      log.recordPost(message);
    }
    const posted = deferred.length === 0 ? message : [[...deferred, message]];
    if (deferred.length > 0) this.#deferred = [];
    if (log === null) this.#port.post(posted, transfer);
    else this.#postWithEvents(log, posted, transfer);
  }

  #postWithEvents(log: ReplayLog, posted: unknown[], transfer: ArrayBuffer[]): void {
    const events = log.takeUnsent();
    this.#port.post(events === '' ? posted : [events, posted], transfer);
  }

  #takeArrived(): void {
    if (this.#held.length > 0) this.#releaseHeld();
    this.#port.takeArrived();
  }

  #releaseHeld(): void {
    const held = this.#held;
    this.#held = [];
    for (const message of held) this.#take(message);
  }

  receive(message: HostMessage): void {
    this.received += 1;
    this.#take(message);
  }

  #take(message: HostMessage): void {
    if (this.#replayLog !== null) {
      // Held messages come first, also between the end of the replay and their release.
      if (this.#replayLog.isReplaying || this.#held.length > 0) {
        this.#held.push(message);
        return;
      }
      this.#replayLog.recordMessage(message);
    }
    this.#deliver(message);
  }

  #deliver([, call, ...reply]: HostMessage): void {
    this.#receivers?.get(call)?.(reply);
    if (isFinalReply(reply)) {
      this.#unanswered -= 1;
      this.#onSettled?.get(call)?.();
      this.#onSettled?.delete(call);
    }
    this.#wait.notify();
  }
}

/** Messages taken per event: guests that they start, end or wake run before the next ones are taken. */
const MAX_TAKEN = 4;

/** Receives the messages for one guest, or for the thread itself. */
export interface MessageTarget {
  receive(message: HostMessage): void;
}

/** Guest end of the port of one thread. */
export class ThreadPort {
  readonly #port: MessagePort;
  readonly #guests = new Map<number, MessageTarget>();

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (posted: HostPosted) => {
      this.#take(posted);
      this.takeArrived(MAX_TAKEN);
    });
  }

  attach(guest: number, target: MessageTarget): void {
    this.#guests.set(guest, target);
  }

  /** Later messages for this guest are dropped. */
  detach(guest: number): void {
    this.#guests.delete(guest);
  }

  post(message: unknown, transfer: ArrayBuffer[]): void {
    this.#port.postMessage(message, transfer);
  }

  /** Takes messages synchronously: an event for each would cost more than most of them. */
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
    if (posted.length > 1) this.#dispatch(posted as HostMessage);
    else for (const message of posted[0] as readonly HostMessage[]) this.#dispatch(message);
  }

  #dispatch(message: HostMessage): void {
    this.#guests.get(message[0])?.receive(message);
  }
}

/** Samples per reporting interval. */
const SAMPLES = 4;

export interface IdleReporterOptions {
  readonly replayLog: ReplayLog;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  /** A guest that has waited so long is reported. */
  readonly afterMs: number;
}

/** Reports a guest with user streams that waits for long, by sampling: waits are too frequent for a timer each. */
export class IdleReporter {
  readonly #options: IdleReporterOptions;
  #timer: NodeJS.Timeout | undefined;
  #position = '';
  #since = 0;

  constructor(options: IdleReporterOptions) {
    this.#options = options;
  }

  /** The guest opened a user stream, or their events. */
  begin(): void {
    this.#timer ??= setInterval(() => this.#sample(), this.#options.afterMs / SAMPLES);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    const { replayLog, wait, link, afterMs } = this.#options;
    const now = performance.now();
    const { position } = replayLog;
    const isIdle =
      position === this.#position && wait.isWaiting && !replayLog.isReplaying && replayLog.allTimersReported;
    this.#position = position;
    if (!isIdle) this.#since = now;
    if (now - this.#since < afterMs) return;
    this.#since = now;
    replayLog.notifyHost(['rests', link.received]);
  }
}
