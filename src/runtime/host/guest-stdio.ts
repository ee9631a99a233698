/*
 * Standard streams of a guest on the host thread: where its output goes, and on-demand reads of its input.
 *
 * Output of a guest without a journal on a dedicated thread goes straight to file descriptors. All other output is posted
 * to the host thread, which writes it here and acknowledges it in batches of ACK_BATCH. A slow Writable delays the
 * acknowledgement, so the guest waits and the host buffers at most one window per stream.
 */
import type { Readable, Writable } from 'node:stream';
import { ConfigError } from '../../config/config-error.ts';
import { refuseUnknownKeys } from '../../config/option-keys.ts';
import { FdOutput } from '../guest/hostcalls/output.ts';
import {
  ACK_BATCH,
  type DedicatedSpec,
  MAX_BUFFERED_POSTS,
  POST_WINDOW,
  type PostedKind,
  type StandardStream,
  WINDOW_BYTES,
  windowSlots,
} from '../port/guest-spec.ts';
import { PortViolation } from '../port/port.ts';

/** Takes bytes of one stream, synchronously. */
export type OutputCallback = (bytes: Uint8Array) => void;
/** Destination of one stream: a file descriptor of this process, a stream, or a function. */
export type OutputTarget = number | Writable | OutputCallback;

/** Destinations of a guest's output: one for each stream, or one function for both. */
export type OutputOption =
  | { readonly stdout?: OutputTarget | undefined; readonly stderr?: OutputTarget | undefined }
  | ((stream: StandardStream, bytes: Uint8Array) => void);

const streams = ['stdout', 'stderr'] as const;
const ownFds: Readonly<Record<StandardStream, number>> = { stdout: 1, stderr: 2 };

/** @throws ConfigError */
export function compileOutput(given: OutputOption = {}): Readonly<Record<StandardStream, OutputTarget>> {
  if (typeof given === 'function') {
    return { stdout: (bytes) => given('stdout', bytes), stderr: (bytes) => given('stderr', bytes) };
  }
  refuseUnknownKeys('output', given, ownFds);
  for (const stream of streams) {
    const target = given[stream];
    if (target === undefined || typeof target === 'function' || Number.isInteger(target) || isWritable(target))
      continue;
    throw new ConfigError(`output.${stream}: expected a file descriptor, a Writable or a function`);
  }
  return { stdout: given.stdout ?? ownFds.stdout, stderr: given.stderr ?? ownFds.stderr };
}

/** Targets for output that the host writes on behalf of the guest: file descriptors become functions. */
export function throughHost(
  targets: Readonly<Record<StandardStream, OutputTarget>>,
): Readonly<Record<StandardStream, OutputTarget>> {
  if (typeof targets.stdout !== 'number' && typeof targets.stderr !== 'number') return targets;
  const through = (stream: StandardStream): OutputTarget => {
    const target = targets[stream];
    if (typeof target !== 'number') return target;
    const output = new FdOutput({ ...ownFds, [stream]: target });
    return (bytes) => void output.write(stream, bytes);
  };
  return { stdout: through('stdout'), stderr: through('stderr') };
}

const isWritable = (target: unknown): target is Writable =>
  typeof target === 'object' && target !== null && typeof (target as Writable).write === 'function';

const isDescriptor = (target: OutputTarget): target is number => typeof target === 'number';

/** Output that a guest posts to the host thread, and its acknowledgement. */
export class GuestOutput {
  readonly #targets: Readonly<Record<StandardStream, OutputTarget>>;
  /** Created on first output: most waiting guests have written nothing. */
  readonly #sinks: Record<StandardStream, Sink | null> = { stdout: null, stderr: null };
  /** Counters on which a guest with a dedicated thread waits; null: the guest is sent a message. */
  #unacknowledged: Int32Array<SharedArrayBuffer> | null = null;
  #unacked: Record<PostedKind, number> | null = null;
  readonly #ack: (what: PostedKind, amount: number) => void;

  /** `ack` acknowledges data to a guest on a shared thread. @default nothing is acknowledged by message */
  constructor(
    targets: Readonly<Record<StandardStream, OutputTarget>>,
    ack: (what: PostedKind, amount: number) => void = () => {},
  ) {
    this.#targets = targets;
    this.#ack = ack;
  }

  /** Spec of a guest with a dedicated thread: which streams go to descriptors, and the counters of the posted ones. */
  spec(): Pick<DedicatedSpec, 'output' | 'unacknowledged'> {
    const fdOf = (target: OutputTarget) => (isDescriptor(target) ? target : null);
    const output = { stdout: fdOf(this.#targets.stdout), stderr: fdOf(this.#targets.stderr) };
    if (streams.every((stream) => output[stream] !== null)) return { output, unacknowledged: null };
    const unacknowledged = new SharedArrayBuffer(WINDOW_BYTES);
    this.#unacknowledged = new Int32Array(unacknowledged);
    return { output, unacknowledged };
  }

  /** Drops the first `skip` bytes. @throws PortViolation, and whatever a callback throws */
  receive(stream: StandardStream, bytes: Uint8Array, skip = 0): void {
    const sink = this.#sink(stream);
    if (skip > 0) sink.skip(skip);
    if (skip < bytes.byteLength) sink.take(bytes.subarray(skip));
  }

  ackEvents(chars: number): void {
    this.#taken('journal', chars);
  }

  /** The guest has ended: hands queued output to its streams, which buffer it for slow readers. */
  finish(): void {
    for (const stream of streams) this.#sinks[stream]?.finish();
  }

  #sink(stream: StandardStream): Sink {
    const known = this.#sinks[stream];
    if (known !== null) return known;
    const target = this.#targets[stream];
    if (isDescriptor(target)) throw new PortViolation(`unexpected ${stream} message`);
    const made = new Sink(target, (bytes) => this.#taken(stream, bytes));
    this.#sinks[stream] = made;
    return made;
  }

  #taken(what: PostedKind, amount: number): void {
    this.#unacked ??= { stdout: 0, stderr: 0, journal: 0 };
    const amountDue = this.#unacked[what] + amount;
    this.#unacked[what] = amountDue < ACK_BATCH ? amountDue : 0;
    if (amountDue < ACK_BATCH) return;
    if (this.#unacknowledged === null) this.#ack(what, amountDue);
    else {
      Atomics.sub(this.#unacknowledged, windowSlots[what], amountDue);
      Atomics.notify(this.#unacknowledged, windowSlots[what]);
    }
  }
}

/** Queue in front of one target. Bytes are acknowledged when the target has taken them. */
class Sink {
  readonly #target: Writable | OutputCallback;
  readonly #taken: (bytes: number) => void;
  readonly #resume = () => this.#drained();
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  /** Bytes that the stream accepted beyond its high-water mark; null: the stream has room. */
  #full: number | null = null;

  constructor(target: Writable | OutputCallback, taken: (bytes: number) => void) {
    this.#target = target;
    this.#taken = taken;
  }

  take(bytes: Uint8Array): void {
    if (this.#full === null) {
      this.#write(bytes);
      return;
    }
    this.#waitingBytes += bytes.byteLength;
    if (this.#waitingBytes > POST_WINDOW + MAX_BUFFERED_POSTS)
      throw new PortViolation('more output than the output window holds');
    this.#waiting.push(bytes);
  }

  skip(bytes: number): void {
    this.#taken(bytes);
  }

  finish(): void {
    this.#listen('off');
    this.#full = null;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (typeof this.#target === 'function') return;
    for (const bytes of waiting) if (isOpen(this.#target)) this.#target.write(bytes);
  }

  #write(bytes: Uint8Array): void {
    if (typeof this.#target === 'function') this.#target(bytes);
    else if (isOpen(this.#target) && !this.#target.write(bytes)) {
      this.#full = bytes.byteLength;
      this.#listen('on');
      return;
    }
    this.#taken(bytes.byteLength);
  }

  #drained(): void {
    this.#listen('off');
    if (this.#full !== null) this.#taken(this.#full);
    this.#full = null;
    while (this.#full === null) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#waitingBytes -= next.byteLength;
      this.#write(next);
    }
  }

  #listen(how: 'on' | 'off'): void {
    if (typeof this.#target === 'function') return;
    // A closed stream drops output; the guest continues.
    for (const event of ['drain', 'close', 'error']) this.#target[how](event, this.#resume);
  }
}

const isOpen = (stream: Writable) => stream.writable && !stream.destroyed;

const EMPTY = new Uint8Array();

/** Reads a stream on demand: buffers at most one chunk that the guest did not ask for. */
export class StdinReader {
  readonly #open: () => Readable | null;
  #stream: Readable | null | undefined;
  #rest: Uint8Array = EMPTY;

  /** `open` is called on first read: merely accessing the process's stdin keeps the process alive. */
  constructor(open: () => Readable | null) {
    this.#open = open;
  }

  /** At most `maxBytes`; empty at the end of the input. */
  async read(maxBytes: number): Promise<Uint8Array> {
    if (this.#rest.byteLength === 0) this.#rest = await this.#next();
    // A copy: posting a view sends the whole buffer behind it, and small buffers share theirs with the rest of the host.
    const chunk = new Uint8Array(this.#rest.subarray(0, maxBytes));
    this.#rest = this.#rest.subarray(maxBytes);
    return chunk;
  }

  close(): void {
    this.#stream?.destroy();
    this.#stream = null;
  }

  #next(): Promise<Uint8Array> {
    if (this.#stream === undefined) {
      this.#stream = this.#open();
      this.#stream?.on('error', () => {}); // an error counts as the end of the input, also between reads
    }
    const stream = this.#stream;
    if (!stream) return Promise.resolve(EMPTY);
    return new Promise((resolve) => {
      const attempt = () => {
        const chunk = stream.read() as Uint8Array | null;
        if (chunk === null && !stream.readableEnded && !stream.destroyed) return;
        for (const event of ['readable', 'end', 'error', 'close']) stream.off(event, attempt);
        resolve(chunk ?? EMPTY);
      };
      for (const event of ['readable', 'end', 'error', 'close']) stream.on(event, attempt);
      attempt();
    });
  }
}
