/*
 * Replay log of one guest thread: records every nondeterministic input of the guest and replays it at the same position.
 * See docs/contributing/durable.md for the invariants.
 *
 * A position is CALL.STEP. CALL counts hostcalls; STEP counts, within one call, what the thread does that may meet an
 * input: the end of a call, a poll of the port, a message to the host, a wait, a timer, a read of clock or entropy.
 * Between two steps the thread never looks at what has arrived, so an input belongs to exactly one position.
 *
 * Each recorded event carries the rolling hash of everything that the guest did before it. Replay compares position and
 * hash; the first difference ends the replay as `diverged`. Everything but the recorded inputs is computed again.
 *
 * One ReplayLog belongs to one guest; on a shared thread every guest has its own.
 */
import { type CallName, calls } from '../../abi/calls.ts';
import { Failure } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import { type EventKind, eventText, type ReplayEvent, type ReplayStart } from '../../port/journal-events.ts';
import type { GuestRequest, HostMessage } from '../../port/port.ts';
import { mix, mixStart, mixStartOfText, mixValue } from './rolling-hash.ts';
import { type DeterministicSources, systemSources } from './sources.ts';

export interface ReplayLink {
  /** Delivers a replayed message to its receiver. */
  deliver(message: HostMessage): void;
  /** Delivers messages that arrived during replay. */
  releaseHeld(): void;
  /** Posts a message outside the recorded history, with the events recorded so far. */
  post(request: GuestRequest): void;
}

/** Back pressure of posted journal events. */
export interface PostWindow {
  /** Before so much more is posted: waits for room, or makes sure that the guest will. */
  waitFor(chars: number): void;
  add(chars: number): void;
}

interface Timer {
  readonly ms: number;
  readonly fire: () => void;
  stop: () => void;
  /** The host knows this timer. */
  isReported: boolean;
}

/** Beyond this, events are posted without waiting for the guest's next message. */
const MAX_UNSENT_CHARS = 64 * 1024;
/** Ticks of the event loop without progress after which a replayed guest makes none; the first ones follow at once. */
const IDLE_TICKS = 1_000;
const PROMPT_TICKS = 50;

export class ReplayLog implements DeterministicSources {
  #hash = 0;
  #call = 0;
  #step = 0;
  /** Row of the call that began last. */
  #row = -1;
  #unsent = '';
  #nextTimer = 1;
  readonly #timers = new Map<number, Timer>();
  #link: ReplayLink | undefined;
  /** Events to replay; null: the guest runs live and its inputs are recorded. */
  #history: readonly ReplayEvent[] | null;
  readonly #continuesLive: boolean;
  #at = 0;
  #isReplayScheduled = false;
  /** The guest has ended. */
  #isClosed = false;
  /** The host was notified that the history is exhausted, or has diverged. */
  #hasStopped = false;
  readonly #halt: () => never;
  #idleTicks = 0;

  readonly #window: PostWindow | null;
  readonly #timerDeadlines: ReadonlyMap<number, number>;
  readonly #reportTimersMs: number;

  /**
   * `window` null: posted events are not counted. `halt` stops the guest after the host was notified why.
   * @default blocks the thread until the host terminates it
   */
  constructor(start: ReplayStart, window: PostWindow | null = null, halt: () => never = blockThread) {
    const { events, continuesLive, sleeps = [], reportTimersMs } = start;
    this.#window = window;
    this.#timerDeadlines = new Map(sleeps);
    this.#reportTimersMs = reportTimersMs ?? Number.POSITIVE_INFINITY;
    this.#history = events.length === 0 && continuesLive ? null : events;
    this.#continuesLive = continuesLive;
    this.#halt = halt;
  }

  /** The guest has ended: stops its timers. */
  close(): void {
    this.#isClosed = true;
    for (const { stop } of this.#timers.values()) stop();
    this.#timers.clear();
  }

  attach(link: ReplayLink): void {
    this.#link = link;
  }

  /** Whether messages of the host must be held back. */
  get isReplaying(): boolean {
    return this.#history !== null;
  }

  /** Changes with every step of the guest. */
  get position(): string {
    return `${this.#call}.${this.#step}`;
  }

  /** Whether the host knows every pending timer. */
  get allTimersReported(): boolean {
    return [...this.#timers.values()].every(({ isReported }) => isReported);
  }

  /** Sends the host a message outside the recorded history. */
  notifyHost(request: GuestRequest): void {
    if (!this.#isClosed) this.#link?.post(request);
  }

  /** A hostcall begins. Numbers are hashed here, texts when they are read. */
  beginCall(row: number, a?: unknown, b?: unknown, c?: unknown, d?: unknown): void {
    if (this.#history !== null) this.#leave();
    this.#call += 1;
    this.#step = 0;
    this.#row = row;
    let hash = mix(this.#hash, row);
    if (typeof a === 'number') hash = mix(hash, a | 0);
    if (typeof b === 'number') hash = mix(hash, b | 0);
    if (typeof c === 'number') hash = mix(hash, c | 0);
    if (typeof d === 'number') hash = mix(hash, d | 0);
    this.#hash = hash;
  }

  hashText(text: string): void {
    this.#hash = mixStartOfText(this.#hash, text);
  }

  hashBytes(memory: GuestMemory, ptr: number, length: number): void {
    this.#hash = mixStart(this.#hash, memory, ptr, length);
  }

  endCall(value: unknown): void {
    if (this.#history !== null) this.#leave();
    this.#step += 1;
    this.#hash = mix(this.#hash, typeof value === 'number' ? value | 0 : returned(value));
  }

  /** The guest is about to wait, or to look at what arrived while it waited. */
  step(): void {
    this.#advance();
  }

  /** Polls the port, with `take` when live. */
  poll(take: () => void): void {
    this.#advance();
    if (this.#history === null) take();
    else this.#replayDue();
    this.#advance();
  }

  recordMessage([, call]: HostMessage): void {
    this.#write('r', String(call));
  }

  /** The guest is about to post a message. */
  recordPost(message: readonly unknown[]): void {
    this.#advance();
    const isEnd = message[3] === 'ended';
    // The number of the guest on its thread is not part of the run.
    const recorded = asRecorded(message[0] === 0 ? message : [0, ...message.slice(1)]);
    this.#hash = isEnd ? mixEnding(this.#hash, message[4]) : mixValue(this.#hash, recorded);
    if (this.#history === null) {
      this.#unsent += eventText(this.#call, this.#step, this.#hash, 'k', '');
      return;
    }
    const next = this.#dueEvent();
    if (next?.kind === 'k') this.#consume(next);
    if (!isEnd || this.#history === null) return;
    if (this.#at < this.#history.length) this.#diverge('the guest ends here, and the journal continues');
    this.#history = null;
  }

  /** Returns the events that were not posted yet. */
  takeUnsent(): string {
    const events = this.#unsent;
    this.#unsent = '';
    if (events !== '') this.#window?.add(events.length);
    return events;
  }

  wallMs(): number {
    return Number(this.#read('c', () => String(systemSources.wallMs())));
  }

  monotonicNs(): bigint {
    return BigInt(this.#read('c', () => String(systemSources.monotonicNs())));
  }

  fillRandom(bytes: Uint8Array): void {
    const value = this.#read('d', () => {
      systemSources.fillRandom(bytes);
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
    });
    bytes.set(Buffer.from(value, 'base64url'));
  }

  randomI64(): bigint {
    const bytes = new Uint8Array(8);
    this.fillRandom(bytes);
    return new DataView(bytes.buffer).getBigInt64(0);
  }

  after(ms: number, fire: () => void): () => void {
    this.#advance();
    const id = this.#nextTimer++;
    const timer: Timer = { ms, fire, stop: () => {}, isReported: false };
    this.#timers.set(id, timer);
    if (this.#history === null) this.#arm(id, timer);
    return () => {
      this.#timers.delete(id);
      timer.stop();
      this.#reportTimerEnd(id, timer);
    };
  }

  #arm(id: number, timer: Timer): void {
    // A timer set before the run was parked does not start over.
    const left = (this.#timerDeadlines.get(id) ?? Number.POSITIVE_INFINITY) - systemSources.wallMs();
    const ms = Math.max(0, Math.min(timer.ms, left));
    timer.stop = systemSources.after(ms, () => {
      this.#timers.delete(id);
      this.#write('t', String(id));
      this.#reportTimerEnd(id, timer);
      timer.fire();
    });
    if (ms < this.#reportTimersMs) return;
    timer.isReported = true;
    this.#link?.post(['sleeps', id, ms]);
  }

  #reportTimerEnd(id: number, timer: Timer): void {
    if (timer.isReported && !this.#isClosed) this.#link?.post(['woke', id]);
    timer.isReported = false;
  }

  #read(kind: 'c' | 'd', draw: () => string): string {
    this.#advance();
    if (this.#history !== null) {
      const next = this.#dueEvent();
      if (next?.kind === kind) {
        this.#consume(next);
        return next.value;
      }
      this.#diverge(
        kind === 'c'
          ? 'the guest reads a clock here, and the journal has no clock read'
          : 'the guest draws a random value here, and the journal has none',
      );
    }
    const value = draw();
    this.#write(kind, value);
    return value;
  }

  #write(kind: EventKind, value: string): void {
    this.#unsent += eventText(this.#call, this.#step, this.#hash, kind, value);
    if (this.#unsent.length <= MAX_UNSENT_CHARS) return;
    // Messages are bounded elsewhere; reads of clock and entropy only here.
    if (kind === 'c' || kind === 'd') this.#window?.waitFor(this.#unsent.length);
    this.#link?.post(['journal']);
  }

  #advance(): void {
    if (this.#history !== null) this.#leave();
    this.#step += 1;
  }

  /** Replays what is due at this position before the guest leaves it. */
  #leave(): void {
    this.#idleTicks = 0;
    this.#replayDue();
    const next = this.#history?.[this.#at];
    if (next !== undefined && this.#isHere(next))
      this.#diverge(`the journal has ${words[next.kind]} here, and the guest does nothing of the kind`);
    if (this.#history !== null && next === undefined) this.#stop('exhausted', '');
    this.#scheduleReplay();
  }

  #replayDue(): void {
    for (let next = this.#dueEvent(); next?.kind === 'r' || next?.kind === 't'; next = this.#dueEvent()) {
      const { message, value } = next;
      const timer = message === null ? this.#timers.get(Number(value)) : undefined;
      if (message === null && timer === undefined) {
        this.#diverge('the journal has a timeout here, and the guest has no such timer');
      }
      this.#timers.delete(message === null ? Number(value) : 0);
      this.#consume(next);
      if (message !== null) this.#link?.deliver(message as unknown as HostMessage);
      timer?.fire();
    }
  }

  /** The next event, if it is due at this position. */
  #dueEvent(): ReplayEvent | undefined {
    const next = this.#history?.[this.#at];
    if (next === undefined) return undefined;
    if (this.#isHere(next)) return next;
    const isPast = next.call < this.#call || (next.call === this.#call && next.step < this.#step);
    if (isPast) this.#diverge(`the journal has ${words[next.kind]} before this position, at ${next.call}.${next.step}`);
    return undefined;
  }

  #isHere({ call, step }: ReplayEvent): boolean {
    return call === this.#call && step === this.#step;
  }

  #consume({ hash }: ReplayEvent): void {
    if (hash !== this.#hash) this.#diverge('the hostcalls of the guest up to here differ from the recorded ones');
    this.#at += 1;
    if (this.#at < (this.#history?.length ?? 0) || !this.#continuesLive) return;
    this.#history = null;
    this.#link?.post(['live']);
    for (const [id, timer] of this.#timers) this.#arm(id, timer);
    setImmediate(() => this.#link?.releaseHeld());
  }

  /** Replays on while the guest waits. */
  #scheduleReplay(): void {
    if (this.#isReplayScheduled || this.#history === null) return;
    this.#isReplayScheduled = true;
    const tick = () => {
      this.#isReplayScheduled = false;
      if (this.#history === null || this.#isClosed || this.#hasStopped) return;
      try {
        this.#continueReplay(this.#history);
      } catch (error) {
        if (!this.#hasStopped) throw error;
      }
    };
    if (this.#idleTicks < PROMPT_TICKS) setImmediate(tick);
    else setTimeout(tick, 1);
  }

  #continueReplay(history: readonly ReplayEvent[]): void {
    this.#idleTicks += 1;
    this.#replayDue();
    if (this.#history === null) return; // that was the last event: the guest continues live
    if (this.#at === history.length) this.#stop('exhausted', '');
    if (this.#idleTicks > IDLE_TICKS) this.#diverge('the guest waits here for an event that the journal does not have');
    this.#scheduleReplay();
  }

  #diverge(what: string): never {
    const name: CallName | undefined = calls[this.#row]?.name;
    const where = name === undefined ? 'before the first hostcall' : `at hostcall ${this.#call} (${name})`;
    return this.#stop('diverged', `${where}, position ${this.#call}.${this.#step}: ${what}`);
  }

  /** Notifies the host, which ends the guest, and halts. */
  #stop(state: 'exhausted' | 'diverged', detail: string): never {
    if (!this.#hasStopped) this.#link?.post(['replay', state, detail]);
    this.#hasStopped = true;
    // Nothing is left to halt of a guest that has ended.
    return this.#isClosed ? (undefined as never) : this.#halt();
  }
}

function blockThread(): never {
  const never = new Int32Array(new SharedArrayBuffer(4));
  for (;;) Atomics.wait(never, 0, 0);
}

const words: Readonly<Record<EventKind, string>> = {
  r: 'a received message',
  t: 'a timeout',
  c: 'a clock read',
  d: 'a random value',
  k: 'a message to the host',
};

/** The hashed result of a call: its errno, or the length of its body. */
function returned(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (value instanceof Failure) return value.returned;
  return typeof value === 'bigint' ? Number(BigInt.asIntN(32, value)) : 0;
}

/** Notices whose wording changed after the first journals were recorded; the hash of a run contains the first wording. */
const recordedWordings: readonly (readonly [now: RegExp, first: string])[] = [
  [/^the tools of the guest could not be called: /, 'the guest: its tools could not be called: '],
  [
    /^the arguments of pending MCP calls reach (limits\.max_pending_bytes = \d+: EAGAIN)$/,
    'MCP calls under way have arguments of $1',
  ],
  [
    /^the host cannot call the tools of a component: .*$/,
    'a component’s tools are handed back to it: send with HAND_BACK (4); without it the model is told they failed',
  ],
];

function asRecorded(message: readonly unknown[]): readonly unknown[] {
  const text = message[4];
  if (message[3] !== 'notice' || typeof text !== 'string') return message;
  return message.with(
    4,
    recordedWordings.reduce((recorded, [now, first]) => recorded.replace(now, first), text),
  );
}

/** Leaves out the stack of a trap: another V8 may word it differently. */
function mixEnding(hash: number, report: unknown): number {
  const { ending } = report as { readonly ending: { readonly kind: string; readonly code?: number } };
  return mixValue(hash, [ending.kind, ending.code ?? null]);
}
