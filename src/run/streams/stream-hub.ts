import { MAX_STREAMS } from '../../runtime/abi/calls.ts';
import { type GuestMessage, type HostReply, PortViolation } from '../../runtime/port/port.ts';
import {
  readWholeFrame,
  STREAM_CLOSED,
  STREAM_CONNECTED,
  STREAM_WINDOW_BYTES,
} from '../../runtime/port/user-stream.ts';
import type { ClientSession, StreamClient, StreamEnd } from './stream-client.ts';

type Reply = (call: number, reply: HostReply) => void;

/** How long the frames of a guest that has ended may take to leave. */
const FLUSH_MS = 2_000;

/**
 * Host side of the user streams of one guest, with at most one client at a time.
 *
 * - Frames of a client are buffered until the guest opens the stream and has room; frames of the guest are buffered until
 *   the first client connects. Both buffers are bounded, and a client that exceeds its bound is disconnected.
 * - A stream belongs to one client. When the client leaves, the guest reads the remaining frames, closes the stream, and
 *   may open it again for the next client.
 * - Clients do not survive an attempt: in a resumed run the streams of the earlier attempt have a departed client.
 */
export class StreamHub implements StreamEnd {
  readonly #reply: Reply;
  readonly #streams = new Map<number, HubStream>();
  readonly #earlier: (call: number) => readonly HostReply[];
  readonly #departed = departedSession();
  #watch: number | null = null;
  /** Streams whose client left with an earlier attempt, and for which the watch still needs a `closed` event. */
  #left: ReadonlySet<number> = new Set();
  #session: HubSession | null = null;
  #isLive: boolean;
  isOver = false;

  /** `earlier`: recorded replies to a call, for a resumed run. @default a new run */
  constructor(reply: Reply, earlier: ((call: number) => readonly HostReply[]) | null = null) {
    this.#reply = reply;
    this.#earlier = earlier ?? (() => []);
    this.#isLive = earlier === null;
  }

  get isTaken(): boolean {
    return this.#session !== null || this.isOver;
  }

  /** Replay has ended: notifies the guest of the clients that are gone. */
  goLive(): void {
    this.#isLive = true;
    this.#notifyLeft();
    for (const stream of this.#of(this.#departed)) this.#notifyDeparted(stream);
  }

  async evictDeparted(): Promise<void> {
    await this.#session?.evictDeparted();
  }

  connect(client: StreamClient): ClientSession | null {
    if (this.isTaken) return null;
    const session: HubSession = new HubSession(client, {
      arrived: (streamId) => this.#deliver(streamId),
      seen: (streamId) => this.#notify(streamId, STREAM_CONNECTED),
      ended: () => this.#ended(session),
      gone: () => this.#disconnected(session),
    });
    this.#session = session;
    for (const stream of this.#streams.values()) {
      if (stream.session !== null) continue;
      stream.session = session;
      session.meet(stream.streamId);
      for (const frame of stream.written.splice(0)) this.#send(session, stream, frame);
    }
    return session;
  }

  receive(message: GuestMessage): void {
    const call = message[1];
    switch (message[3]) {
      case 'stream_open':
        this.#open(call, message[4], message[5]);
        return;
      case 'stream_watch':
        this.#watch = call;
        this.#left = connectedEarlier(this.#earlier(call));
        if (this.#isLive) this.#notifyLeft();
        for (const streamId of this.#session?.met ?? []) this.#notify(streamId, STREAM_CONNECTED);
        return;
      case 'stream_frame':
        this.#write(call, message[4]);
        return;
      case 'stream_taken':
        this.#taken(call, message[4]);
        return;
      case 'stream_close':
        this.#streams.delete(call);
        if (this.#watch === call) this.#watch = null;
        return;
      default:
        throw new PortViolation(`${message[3]} is not a stream message`);
    }
  }

  /** The guest has ended: sends the remaining frames and disconnects the client. */
  async close(): Promise<void> {
    this.isOver = true;
    const session = this.#session;
    if (session === null) return;
    await session.flushed(FLUSH_MS);
    session.end(null);
  }

  #open(call: number, streamId: number, direction: number): void {
    if (this.#streams.has(call)) throw new PortViolation('duplicate call id');
    if (this.#streams.size >= MAX_STREAMS) throw new PortViolation('too many open streams');
    const { hadClient, given, taken, isEnded, isGone } = earlierStream(this.#earlier(call));
    const stream: HubStream = {
      call,
      streamId,
      reads: (direction & 1) !== 0,
      session: hadClient ? this.#departed : this.#session,
      takenBefore: taken,
      written: [],
      writtenBytes: 0,
      unread: given,
      isEnded,
      isGone,
    };
    this.#streams.set(call, stream);
    if (hadClient) {
      if (this.#isLive) this.#notifyDeparted(stream);
      return;
    }
    this.#session?.meet(streamId);
    this.#deliver(streamId);
  }

  #write(call: number, frame: Uint8Array): void {
    const stream = this.#streams.get(call);
    if (stream === undefined) return; // closed meanwhile
    if (stream.takenBefore >= frame.byteLength) {
      stream.takenBefore -= frame.byteLength;
      return;
    }
    stream.writtenBytes += frame.byteLength;
    if (stream.writtenBytes > STREAM_WINDOW_BYTES)
      throw new PortViolation('more frame bytes than the stream window holds');
    if (stream.session === null) stream.written.push(frame);
    else this.#send(stream.session, stream, frame);
  }

  #send(session: HubSession, stream: HubStream, frame: Uint8Array): void {
    session.send(frame, () => {
      stream.writtenBytes -= frame.byteLength;
      if (this.#streams.has(stream.call)) this.#reply(stream.call, ['stream_room', frame.byteLength]);
    });
  }

  #taken(call: number, bytes: number): void {
    const stream = this.#streams.get(call);
    if (stream === undefined) return;
    if (bytes > stream.unread) throw new PortViolation('more bytes acknowledged than were unread');
    stream.unread -= bytes;
    this.#deliver(stream.streamId);
  }

  /** Sends buffered frames to the guest, as far as it has room. */
  #deliver(streamId: number): void {
    const stream = [...this.#streams.values()].find((open) => open.streamId === streamId && open.reads);
    if (stream === undefined || stream.session === null) return;
    const room = () => STREAM_WINDOW_BYTES - stream.unread;
    for (let frame = stream.session.next(streamId, room()); frame; frame = stream.session.next(streamId, room())) {
      stream.unread += frame.byteLength;
      this.#reply(stream.call, ['stream_frame', frame]);
    }
    if (stream.isEnded || !stream.session.isOver(streamId)) return;
    stream.isEnded = true;
    this.#reply(stream.call, ['stream_end']);
  }

  #ended(session: HubSession): void {
    for (const stream of this.#of(session)) this.#deliver(stream.streamId);
  }

  #disconnected(session: HubSession): void {
    this.#session = null;
    for (const streamId of session.met) this.#notify(streamId, STREAM_CLOSED);
    for (const stream of this.#of(session)) this.#notifyGone(stream);
  }

  #notifyGone(stream: HubStream): void {
    stream.isGone = true;
    this.#reply(stream.call, ['stream_gone']);
  }

  #notifyDeparted(stream: HubStream): void {
    if (!stream.isGone) this.#notifyGone(stream);
    this.#deliver(stream.streamId);
  }

  #notifyLeft(): void {
    for (const streamId of this.#left) this.#notify(streamId, STREAM_CLOSED);
    this.#left = new Set();
  }

  #of(session: HubSession): HubStream[] {
    return [...this.#streams.values()].filter((stream) => stream.session === session);
  }

  #notify(streamId: number, kind: typeof STREAM_CONNECTED | typeof STREAM_CLOSED): void {
    if (this.#watch !== null) this.#reply(this.#watch, ['stream_event', streamId, kind]);
  }
}

/** A stream that the guest has opened. */
interface HubStream {
  readonly call: number;
  readonly streamId: number;
  readonly reads: boolean;
  /** Bytes that the guest writes again during replay, and that a client has already received. */
  takenBefore: number;
  /** Client of the stream; null: the next one to connect. */
  session: HubSession | null;
  /** Frames buffered for the first client. */
  readonly written: Uint8Array[];
  /** Bytes that no client has received. */
  writtenBytes: number;
  /** Bytes sent to the guest thread and not read there. */
  unread: number;
  /** The guest was notified that no more frames follow. */
  isEnded: boolean;
  /** The guest was notified that the client is gone. */
  isGone: boolean;
}

/** State of a stream in an earlier attempt, from the recorded replies. */
export interface EarlierStream {
  /** The stream had a client, which is gone. */
  readonly hadClient: boolean;
  /** Bytes sent to the guest. */
  readonly given: number;
  /** Bytes that a client received. */
  readonly taken: number;
  readonly isEnded: boolean;
  readonly isGone: boolean;
}

export function earlierStream(replies: readonly HostReply[]): EarlierStream {
  let [given, taken] = [0, 0];
  for (const reply of replies) {
    if (reply[0] === 'stream_frame') given += reply[1].byteLength;
    if (reply[0] === 'stream_room') taken += reply[1];
  }
  const was = (kind: HostReply[0]) => replies.some((reply) => reply[0] === kind);
  return { hadClient: replies.length > 0, given, taken, isEnded: was('stream_end'), isGone: was('stream_gone') };
}

/** Streams that are connected according to the recorded events. */
export function connectedEarlier(replies: readonly HostReply[]): ReadonlySet<number> {
  const connected = new Set<number>();
  for (const reply of replies) {
    if (reply[0] !== 'stream_event') continue;
    if (reply[2] === STREAM_CONNECTED) connected.add(reply[1]);
    else connected.delete(reply[1]);
  }
  return connected;
}

/** Buffer for frames of a client that the guest has not read; beyond it the client is paused. */
const MAX_WAITING_BYTES = 4 * STREAM_WINDOW_BYTES;
/** Bytes that a paused client may have had in flight; a client that sends more is disconnected. */
const MAX_OVERRUN_BYTES = MAX_WAITING_BYTES;
/** How long a new client waits for the check whether the current one has left. */
const CHECK_MS = 1_000;

interface SessionEvents {
  readonly arrived: (streamId: number) => void;
  readonly seen: (streamId: number) => void;
  readonly ended: () => void;
  readonly gone: () => void;
}

/** The connection of one client. */
export class HubSession implements ClientSession {
  /** Streams that either side has used. */
  readonly met = new Set<number>();
  readonly #client: StreamClient;
  readonly #events: SessionEvents;
  readonly #waiting = new Map<number, Uint8Array[]>();
  #waitingBytes = 0;
  #isPaused = false;
  #hasEnded = false;
  #isGone = false;
  /** Frames being sent. */
  #sending = 0;
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
    const frames = this.#waiting.get(streamId);
    if (frames === undefined) this.#waiting.set(streamId, [frame]);
    else frames.push(frame);
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

  /** Removes the next frame of a stream, if it fits. */
  next(streamId: number, room: number): Uint8Array | undefined {
    const frames = this.#waiting.get(streamId);
    const frame = frames?.[0];
    if (frame === undefined || frame.byteLength > room) return undefined;
    frames?.shift();
    this.#waitingBytes -= frame.byteLength;
    if (this.#isPaused && this.#waitingBytes <= MAX_WAITING_BYTES / 2) {
      this.#isPaused = false;
      if (!this.#hasEnded) this.#client.resume();
    }
    return frame;
  }

  /** Whether no frame of the stream is buffered, and none will follow. */
  isOver(streamId: number): boolean {
    return this.#hasEnded && (this.#waiting.get(streamId)?.length ?? 0) === 0;
  }

  /** Frames for a client that is gone count as received: the guest is notified separately. */
  send(frame: Uint8Array, taken: () => void): void {
    if (this.#isGone) {
      taken();
      return;
    }
    this.#sending += 1;
    this.#client.send(frame, () => {
      this.#sending -= 1;
      taken();
      if (this.#sending === 0) this.#onceIdle?.();
    });
  }

  /** Resolves when all frames are sent, the client is gone, or the time is up. */
  async flushed(ms: number): Promise<void> {
    if (this.#sending === 0 || this.#isGone) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#onceIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Session of a client that left with an earlier attempt. */
export function departedSession(): HubSession {
  const nothing = () => {};
  const check = () => Promise.resolve();
  const absent: StreamClient = { send: nothing, pause: nothing, resume: nothing, check, close: nothing };
  const session = new HubSession(absent, { arrived: nothing, seen: nothing, ended: nothing, gone: nothing });
  session.gone();
  return session;
}
