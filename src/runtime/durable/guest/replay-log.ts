import { type CallName, calls } from '../../abi/calls.ts';
import { Failure } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import { type EventKind, eventText, type ReplayEvent, type ReplayStart } from '../../port/journal-events.ts';
import type { GuestRequest, HostMessage } from '../../port/port.ts';
import { mix, mixStart, mixStartOfText, mixValue } from './rolling-hash.ts';
import { type DeterministicSources, systemSources } from './sources.ts';

/** The link as the replayLog uses it. */
export interface ReplayLink {
  /** Gives a message to whoever waits for it. */
  deliver(message: HostMessage): void;
  /** Takes what was held back while the replayLog played. */
  takeHeld(): void;
  /** Posts what was written so far, with nothing else to say. */
  post(request: GuestRequest): void;
}

/** What of the replayLog was posted and the host has not taken. */
export interface PostWindow {
  /** So much more is about to be posted: waits until it has room, or sees to it that the guest does. */
  waitFor(chars: number): void;
  add(chars: number): void;
}

interface Timer {
  readonly ms: number;
  readonly fire: () => void;
  stop: () => void;
  /** The host knows of it. */
  isTold: boolean;
}

/** Events that are not shipped with a message yet are shipped alone beyond this. */
const MAX_UNSHIPPED_CHARS = 64 * 1024;
/** Turns of the event loop without anything happening, after which nothing will. The first few come at once. */
const IDLE_TURNS = 1_000;
const PROMPT_TURNS = 50;

/**
 * What makes one run of a guest different from another: what reached its thread, and where. Written down as it happens,
 * and played: then the same things reach it at the same places, and everything else is computed again. Places are
 * counted by what the thread does: each hostcall that begins, and within it each end, look at the port, message to the
 * host, wait, timer and throw of dice. Between two of them nothing of the thread looks at what has arrived.
 */
export class ReplayLog implements DeterministicSources {
  #hash = 0;
  #call = 0;
  #step = 0;
  /** Row of the call that began last. */
  #row = -1;
  #written = '';
  #nextTimer = 1;
  readonly #timers = new Map<number, Timer>();
  #link: ReplayLink | undefined;
  /** Null: what comes is written down. */
  #played: readonly ReplayEvent[] | null;
  readonly #continuesLive: boolean;
  #at = 0;
  #isPumping = false;
  /** The guest has ended. */
  #isClosed = false;
  /** The host was told that the journal goes no further, or is of another run. */
  #hasStopped = false;
  readonly #halt: () => never;
  #idleTurns = 0;

  readonly #underway: PostWindow | null;
  readonly #sleeps: ReadonlyMap<number, number>;
  readonly #reportTimersMs: number;

  /**
   * `underway`: what of it the host has not taken; null: nobody counts.
   * `halt`: ends what the thread does for the guest; the host has been told why. @default the whole thread waits to be ended
   */
  constructor(start: ReplayStart, underway: PostWindow | null = null, halt: () => never = waitForEver) {
    const { events, continuesLive, sleeps = [], reportTimersMs } = start;
    this.#underway = underway;
    this.#sleeps = new Map(sleeps);
    this.#reportTimersMs = reportTimersMs ?? Number.POSITIVE_INFINITY;
    this.#played = events.length === 0 && continuesLive ? null : events;
    this.#continuesLive = continuesLive;
    this.#halt = halt;
  }

  /** The guest has ended: no timer of it fires any more. */
  close(): void {
    this.#isClosed = true;
    for (const { stop } of this.#timers.values()) stop();
    this.#timers.clear();
  }

  attach(link: ReplayLink): void {
    this.#link = link;
  }

  /** Whether messages of the host are to be held back. */
  get isPlaying(): boolean {
    return this.#played !== null;
  }

  /** Changes with all that the guest's thread does. */
  get place(): string {
    return `${this.#call}.${this.#step}`;
  }

  /** Whether all timers that are set are known to the host: nothing happens by itself that it does not expect. */
  get hasToldAll(): boolean {
    return [...this.#timers.values()].every(({ isTold }) => isTold);
  }

  /** The host is told something that is no part of the run. */
  tells(request: GuestRequest): void {
    if (!this.#isClosed) this.#link?.post(request);
  }

  /** A call begins. Of its parameters only numbers count: texts are told when they are read. */
  begin(row: number, a?: unknown, b?: unknown, c?: unknown, d?: unknown): void {
    if (this.#played !== null) this.#leave();
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

  passesText(text: string): void {
    this.#hash = mixStartOfText(this.#hash, text);
  }

  passesBytes(memory: GuestMemory, ptr: number, length: number): void {
    this.#hash = mixStart(this.#hash, memory, ptr, length);
  }

  gives(value: unknown): void {
    if (this.#played !== null) this.#leave();
    this.#step += 1;
    this.#hash = mix(this.#hash, typeof value === 'number' ? value | 0 : returned(value));
  }

  /** The guest's thread is about to wait, or to look what has come while it did. */
  marks(): void {
    this.#advance();
  }

  /** Takes what has arrived, now. */
  looks(take: () => void): void {
    this.#advance();
    if (this.#played === null) take();
    else this.#playDue();
    this.#advance();
  }

  took([, call]: HostMessage): void {
    this.#write('r', String(call));
  }

  /** The host is about to be told something. */
  posts(message: readonly unknown[]): void {
    this.#advance();
    const isEnd = message[3] === 'ended';
    // Whichever number the guest has on its thread, it is the same run.
    const said = asRecorded(message[0] === 0 ? message : [0, ...message.slice(1)]);
    this.#hash = isEnd ? mixEnding(this.#hash, message[4]) : mixValue(this.#hash, said);
    if (this.#played === null) {
      this.#written += eventText(this.#call, this.#step, this.#hash, 'k', '');
      return;
    }
    const next = this.#due();
    if (next?.kind === 'k') this.#consume(next);
    if (!isEnd || this.#played === null) return;
    if (this.#at < this.#played.length) this.#diverge('the guest ends here, and the journal continues');
    this.#played = null;
  }

  /** What was written since the last time. */
  unshipped(): string {
    const written = this.#written;
    this.#written = '';
    if (written !== '') this.#underway?.add(written.length);
    return written;
  }

  wallMs(): number {
    return Number(this.#drawn('c', () => String(systemSources.wallMs())));
  }

  monotonicNs(): bigint {
    return BigInt(this.#drawn('c', () => String(systemSources.monotonicNs())));
  }

  fillRandom(bytes: Uint8Array): void {
    const drawn = this.#drawn('d', () => {
      systemSources.fillRandom(bytes);
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
    });
    bytes.set(Buffer.from(drawn, 'base64url'));
  }

  randomI64(): bigint {
    const bytes = new Uint8Array(8);
    this.fillRandom(bytes);
    return new DataView(bytes.buffer).getBigInt64(0);
  }

  after(ms: number, fire: () => void): () => void {
    this.#advance();
    const id = this.#nextTimer++;
    const timer: Timer = { ms, fire, stop: () => {}, isTold: false };
    this.#timers.set(id, timer);
    if (this.#played === null) this.#arm(id, timer);
    return () => {
      this.#timers.delete(id);
      timer.stop();
      this.#tellOver(id, timer);
    };
  }

  #arm(id: number, timer: Timer): void {
    // One that was set before the run was parked does not begin anew.
    const left = (this.#sleeps.get(id) ?? Number.POSITIVE_INFINITY) - systemSources.wallMs();
    const ms = Math.max(0, Math.min(timer.ms, left));
    timer.stop = systemSources.after(ms, () => {
      this.#timers.delete(id);
      this.#write('t', String(id));
      this.#tellOver(id, timer);
      timer.fire();
    });
    if (ms < this.#reportTimersMs) return;
    timer.isTold = true;
    this.#link?.post(['sleeps', id, ms]);
  }

  #tellOver(id: number, timer: Timer): void {
    if (timer.isTold && !this.#isClosed) this.#link?.post(['woke', id]);
    timer.isTold = false;
  }

  #drawn(kind: 'c' | 'd', draw: () => string): string {
    this.#advance();
    if (this.#played !== null) {
      const next = this.#due();
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
    this.#written += eventText(this.#call, this.#step, this.#hash, kind, value);
    if (this.#written.length <= MAX_UNSHIPPED_CHARS) return;
    // Nothing else bounds what a guest draws; of what reaches it, others do.
    if (kind === 'c' || kind === 'd') this.#underway?.waitFor(this.#written.length);
    this.#link?.post(['journal']);
  }

  #advance(): void {
    if (this.#played !== null) this.#leave();
    this.#step += 1;
  }

  /** Everything that came at this place has to be there before the next. */
  #leave(): void {
    this.#idleTurns = 0;
    this.#playDue();
    const next = this.#played?.[this.#at];
    if (next !== undefined && this.#isHere(next))
      this.#diverge(`the journal has ${words[next.kind]} here, and the guest does nothing of the kind`);
    if (this.#played !== null && next === undefined) this.#stop('exhausted', '');
    this.#pump();
  }

  #playDue(): void {
    for (let next = this.#due(); next?.kind === 'r' || next?.kind === 't'; next = this.#due()) {
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

  /** The next event, if this is its place. */
  #due(): ReplayEvent | undefined {
    const next = this.#played?.[this.#at];
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
    if (this.#at < (this.#played?.length ?? 0) || !this.#continuesLive) return;
    this.#played = null;
    this.#link?.post(['live']);
    for (const [id, timer] of this.#timers) this.#arm(id, timer);
    setImmediate(() => this.#link?.takeHeld());
  }

  /** Plays on while the guest waits. */
  #pump(): void {
    if (this.#isPumping || this.#played === null) return;
    this.#isPumping = true;
    const turn = () => {
      this.#isPumping = false;
      if (this.#played === null || this.#isClosed || this.#hasStopped) return;
      try {
        this.#playOn(this.#played);
      } catch (error) {
        if (!this.#hasStopped) throw error;
      }
    };
    if (this.#idleTurns < PROMPT_TURNS) setImmediate(turn);
    else setTimeout(turn, 1);
  }

  #playOn(played: readonly ReplayEvent[]): void {
    this.#idleTurns += 1;
    this.#playDue();
    if (this.#played === null) return; // that was the last, and the guest goes on live
    if (this.#at === played.length) this.#stop('exhausted', '');
    if (this.#idleTurns > IDLE_TURNS) this.#diverge('the guest waits here for an event that the journal does not have');
    this.#pump();
  }

  #diverge(what: string): never {
    const name: CallName | undefined = calls[this.#row]?.name;
    const where = name === undefined ? 'before the first hostcall' : `at hostcall ${this.#call} (${name})`;
    return this.#stop('diverged', `${where}, position ${this.#call}.${this.#step}: ${what}`);
  }

  /** Says so and does nothing more: the host ends the guest. */
  #stop(state: 'exhausted' | 'diverged', detail: string): never {
    if (!this.#hasStopped) this.#link?.post(['replay', state, detail]);
    this.#hasStopped = true;
    // Of a guest that has ended, of which its journal says nothing or something else, nothing is left to be halted.
    return this.#isClosed ? (undefined as never) : this.#halt();
  }
}

function waitForEver(): never {
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

/** What a call comes to that is no number: its errno, or the length of what it gives. */
function returned(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (value instanceof Failure) return value.returned;
  return typeof value === 'bigint' ? Number(BigInt.asIntN(32, value)) : 0;
}

/** Notices that read differently when the first journals were recorded; the hash of a run contains the first wording. */
const firstWordings: readonly (readonly [now: RegExp, first: string])[] = [
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
    firstWordings.reduce((said, [now, first]) => said.replace(now, first), text),
  );
}

/** Not the stack of a trap: another V8 may word it differently. */
function mixEnding(hash: number, report: unknown): number {
  const { ending } = report as { readonly ending: { readonly kind: string; readonly code?: number } };
  return mixValue(hash, [ending.kind, ending.code ?? null]);
}
