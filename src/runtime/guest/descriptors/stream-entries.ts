import { FRAME_BYTES } from '../../abi/calls.ts';
import { type Failure, fail } from '../../abi/errno.ts';
import { STREAM_GIVE_BACK_BYTES, STREAM_WINDOW_BYTES, type StreamEventKind } from '../../port/user-stream.ts';
import { HUP, IN, OUT } from './readiness.ts';
import { FdEntry } from './table.ts';

const READS = 1;
const WRITES = 2;

/** One stream between the guest and whoever sits at the other end of its run. */
export class UserStream extends FdEntry {
  readonly kind = 'UserStream';
  readonly streamId: number;
  readonly direction: number;
  /** Under which the host knows it. */
  call = 0;
  readonly #onRelease: () => void;
  readonly #frames: Uint8Array[] = [];
  /** Of frames that were read, and the host does not know of. */
  #taken = 0;
  /** Of frames that were written, and the client has not taken. */
  #underway = 0;
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

  /** The client has taken so much of what was written. */
  gaveRoom(bytes: number): void {
    this.#underway -= bytes;
  }

  /** The client sends nothing more: what it sent is here. */
  ended(): void {
    this.#hasEnded = true;
  }

  /** The client takes nothing more. */
  gone(): void {
    this.#isGone = true;
  }

  /** The next frame, which stays the next one until {@link take}. */
  next(): Uint8Array | Failure {
    return this.#frames[0] ?? (this.#hasEnded ? fail.EPIPE : fail.EAGAIN);
  }

  /** Takes the next frame. Gives what the host is to be told of: so many bytes were taken since it last was. */
  take(): number {
    this.#taken += this.#frames.shift()?.byteLength ?? 0;
    if (this.#taken < STREAM_GIVE_BACK_BYTES) return 0;
    const taken = this.#taken;
    this.#taken = 0;
    return taken;
  }

  /** Whether the client has room for a frame; it is counted if so. */
  reserve(bytes: number): Failure | null {
    if (this.#isGone) return fail.EPIPE;
    if (this.#underway + bytes > STREAM_WINDOW_BYTES) return fail.EAGAIN;
    this.#underway += bytes;
    return null;
  }

  readiness(): number {
    const canRead = this.reads && (this.#frames.length > 0 || this.#hasEnded);
    if (this.#isGone) return canRead ? IN | HUP : HUP;
    const canWrite = this.writes && this.#underway + FRAME_BYTES <= STREAM_WINDOW_BYTES;
    return (canRead ? IN : 0) | (canWrite ? OUT : 0);
  }

  release(): void {
    this.#frames.length = 0;
    this.#onRelease();
  }
}

const EVENT_BYTES = 8;
/** Clients can come and go faster than a guest looks. */
const MAX_EVENTS = 1_024;

/** Who came and who went. */
export class UserStreamCtl extends FdEntry {
  readonly kind = 'UserStreamCtl';
  call = 0;
  readonly #onRelease: () => void;
  readonly #events: Uint8Array[] = [];

  constructor(onRelease: () => void) {
    super();
    this.#onRelease = onRelease;
  }

  /** False: the guest has not looked for so long that the oldest event made way. */
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
