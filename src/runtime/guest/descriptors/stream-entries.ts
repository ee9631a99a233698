import { FRAME_BYTES } from '../../abi/calls.ts';
import { type Failure, fail } from '../../abi/errno.ts';
import { STREAM_GIVE_BACK_BYTES, STREAM_WINDOW_BYTES, type StreamEventKind } from '../../port/user-stream.ts';
import { HUP, IN, OUT } from './readiness.ts';
import { FdEntry } from './table.ts';

const READS = 1;
const WRITES = 2;

/** A user stream between the guest and the clients of its run. */
export class UserStream extends FdEntry {
  readonly kind = 'UserStream';
  readonly streamId: number;
  readonly direction: number;
  /** Its call on the port. */
  call = 0;
  readonly #onRelease: () => void;
  readonly #frames: Uint8Array[] = [];
  /** Bytes of frames that were read and not acknowledged. */
  #taken = 0;
  /** Bytes of frames that were written and the client has not taken. */
  #inFlight = 0;
  #hasEnded = false;
  #isGone = false;

  constructor(streamId: number, direction: number, onRelease: () => void) {
    super();
    this.streamId = streamId;
    this.direction = direction;
    this.#onRelease = onRelease;
  }

  get reads(): boolean {
    return (this.direction & READS) !== 0;
  }

  get writes(): boolean {
    return (this.direction & WRITES) !== 0;
  }

  arrived(frame: Uint8Array): void {
    this.#frames.push(frame);
  }

  /** The client has taken so many bytes. */
  gaveRoom(bytes: number): void {
    this.#inFlight -= bytes;
  }

  /** The client ended its side; all its frames have arrived. */
  ended(): void {
    this.#hasEnded = true;
  }

  /** The client disconnected. */
  gone(): void {
    this.#isGone = true;
  }

  /** The next frame, until {@link take}. */
  next(): Uint8Array | Failure {
    return this.#frames[0] ?? (this.#hasEnded ? fail.EPIPE : fail.EAGAIN);
  }

  /** Takes the next frame. Returns the bytes to acknowledge to the host now, or 0. */
  take(): number {
    this.#taken += this.#frames.shift()?.byteLength ?? 0;
    if (this.#taken < STREAM_GIVE_BACK_BYTES) return 0;
    const taken = this.#taken;
    this.#taken = 0;
    return taken;
  }

  /** Reserves room for a frame; null: reserved. */
  reserve(bytes: number): Failure | null {
    if (this.#isGone) return fail.EPIPE;
    if (this.#inFlight + bytes > STREAM_WINDOW_BYTES) return fail.EAGAIN;
    this.#inFlight += bytes;
    return null;
  }

  readiness(): number {
    const canRead = this.reads && (this.#frames.length > 0 || this.#hasEnded);
    if (this.#isGone) return canRead ? IN | HUP : HUP;
    const canWrite = this.writes && this.#inFlight + FRAME_BYTES <= STREAM_WINDOW_BYTES;
    return (canRead ? IN : 0) | (canWrite ? OUT : 0);
  }

  release(): void {
    this.#frames.length = 0;
    this.#onRelease();
  }
}

const EVENT_BYTES = 8;
/** Bound, because clients may connect faster than the guest reads events. */
const MAX_EVENTS = 1_024;

/** Connection events of the clients. */
export class UserStreamCtl extends FdEntry {
  readonly kind = 'UserStreamCtl';
  call = 0;
  readonly #onRelease: () => void;
  readonly #events: Uint8Array[] = [];

  constructor(onRelease: () => void) {
    super();
    this.#onRelease = onRelease;
  }

  /** False: the oldest event was dropped because the guest does not read them. */
  happened(streamId: number, kind: StreamEventKind): boolean {
    const event = new DataView(new ArrayBuffer(EVENT_BYTES));
    event.setUint32(0, streamId, true);
    event.setUint32(4, kind, true);
    this.#events.push(new Uint8Array(event.buffer));
    if (this.#events.length <= MAX_EVENTS) return true;
    this.#events.shift();
    return false;
  }

  next(): Uint8Array | Failure {
    return this.#events[0] ?? fail.EAGAIN;
  }

  take(): void {
    this.#events.shift();
  }

  readiness(): number {
    return this.#events.length > 0 ? IN : 0;
  }

  release(): void {
    this.#events.length = 0;
    this.#onRelease();
  }
}
