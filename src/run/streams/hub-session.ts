import { MAX_STREAMS } from '../../runtime/abi/calls.ts';
import { readWholeFrame } from '../../runtime/port/stream-frame.ts';
import { STREAM_WINDOW_BYTES } from '../../runtime/port/stream-window.ts';
import type { ClientSession, StreamClient } from './stream-client.ts';

/** Frames of a client that the guest has not asked for yet; beyond, the client waits. */
const MAX_WAITING_BYTES = 4 * STREAM_WINDOW_BYTES;
/** What a client that was told to wait may have had on its way; one that goes on is ended. */
const MAX_OVERRUN_BYTES = MAX_WAITING_BYTES;
/** How long another client waits for the check whether this one has left. */
const CHECK_MS = 1_000;

interface SessionEvents {
  readonly arrived: (streamId: number) => void;
  readonly seen: (streamId: number) => void;
  readonly ended: () => void;
  readonly gone: () => void;
}

/** One client from its coming to its going. */
export class HubSession implements ClientSession {
  /** Streams that either side has named. */
  readonly met = new Set<number>();
  readonly #client: StreamClient;
  readonly #events: SessionEvents;
  readonly #waiting = new Map<number, Uint8Array[]>();
  #waitingBytes = 0;
  #isPaused = false;
  #hasEnded = false;
  #isGone = false;
  #underway = 0;
  #onceIdle: (() => void) | null = null;
  #check: Promise<void> | null = null;

  constructor(client: StreamClient, events: SessionEvents) {
    this.#client = client;
    this.#events = events;
  }

  meet(streamId: number): void {
    if (this.met.has(streamId)) return;
    this.met.add(streamId);
    this.#events.seen(streamId);
  }

  receive(frame: Uint8Array): void {
    if (this.#hasEnded) return;
    const head = readWholeFrame(frame);
    if (typeof head === 'string') {
      this.end(head);
      return;
    }
    const { streamId } = head;
    if (!this.met.has(streamId) && this.met.size >= MAX_STREAMS) {
      this.end(`a client may use at most ${MAX_STREAMS} streams; stream ${streamId} exceeds that`);
      return;
    }
    this.#waitingBytes += frame.byteLength;
    if (this.#waitingBytes > MAX_WAITING_BYTES + MAX_OVERRUN_BYTES) {
      this.end('the client sent more than the stream window holds before the guest read it');
      return;
    }
    const line = this.#waiting.get(streamId);
    if (line === undefined) this.#waiting.set(streamId, [frame]);
    else line.push(frame);
    this.meet(streamId);
    this.#events.arrived(streamId);
    if (this.#waitingBytes <= MAX_WAITING_BYTES || this.#isPaused) return;
    this.#isPaused = true;
    this.#client.pause();
  }

  ended(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#events.ended();
  }

  gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#onceIdle?.();
    this.#events.gone();
    this.ended();
  }

  end(problem: string | null): void {
    if (this.#isGone) return;
    this.#client.close(problem);
    this.gone();
  }

  /** Ends the session of a client that has left while the host did not read from it. Callers share one check. */
  evictDeparted(): Promise<void> {
    if (!this.#isPaused && !this.#hasEnded) return Promise.resolve(); // reading detects a departure
    this.#check ??= this.#client
      .check(AbortSignal.timeout(CHECK_MS))
      .catch(() => {}) // still connected, as far as is known
      .finally(() => {
        this.#check = null;
      });
    return this.#check;
  }

  /** The next frame of a stream, if it is small enough. */
  next(streamId: number, room: number): Uint8Array | undefined {
    const line = this.#waiting.get(streamId);
    const frame = line?.[0];
    if (frame === undefined || frame.byteLength > room) return undefined;
    line?.shift();
    this.#waitingBytes -= frame.byteLength;
    if (this.#isPaused && this.#waitingBytes <= MAX_WAITING_BYTES / 2) {
      this.#isPaused = false;
      if (!this.#hasEnded) this.#client.resume();
    }
    return frame;
  }

  /** Whether nothing of the stream is left, and nothing will come. */
  isOver(streamId: number): boolean {
    return this.#hasEnded && (this.#waiting.get(streamId)?.length ?? 0) === 0;
  }

  /** What a client that is gone would have got counts as taken: the guest is told that it is gone. */
  send(frame: Uint8Array, taken: () => void): void {
    if (this.#isGone) {
      taken();
      return;
    }
    this.#underway += 1;
    this.#client.send(frame, () => {
      this.#underway -= 1;
      taken();
      if (this.#underway === 0) this.#onceIdle?.();
    });
  }

  /** When the client has everything, or is gone, or after so long. */
  async flushed(ms: number): Promise<void> {
    if (this.#underway === 0 || this.#isGone) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#onceIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Of a client that went with an earlier attempt at the run. */
export function departedSession(): HubSession {
  const nothing = () => {};
  const check = () => Promise.resolve();
  const absent: StreamClient = { send: nothing, pause: nothing, resume: nothing, check, close: nothing };
  const session = new HubSession(absent, { arrived: nothing, seen: nothing, ended: nothing, gone: nothing });
  session.gone();
  return session;
}
