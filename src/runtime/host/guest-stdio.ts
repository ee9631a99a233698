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

/** Takes bytes of one stream, at once. */
export type OutputCallback = (bytes: Uint8Array) => void;
/** Where one stream goes: a file descriptor of this process, a stream, or a function. */
export type OutputTarget = number | Writable | OutputCallback;

/** Where a guest's output goes: each stream its own way, or one function for both. */
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

/** The same where the guest's thread must not write by itself: the host does, as soon as it is told. */
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

/** The host's end of what a guest writes, where it does not go to descriptors. */
export class GuestOutput {
  readonly #targets: Readonly<Record<StandardStream, OutputTarget>>;
  /** Made when something comes: most guests that wait have written nothing. */
  readonly #sinks: Record<StandardStream, Sink | null> = { stdout: null, stderr: null };
  /** For a guest that waits for room by memory; those on shared threads are told. */
  #underway: Int32Array<SharedArrayBuffer> | null = null;
  #untold: Record<PostedKind, number> | null = null;
  readonly #tell: (what: PostedKind, amount: number) => void;

  /** `tell`: lets a guest on a shared thread know how much was taken. @default nobody needs to know */
  constructor(
    targets: Readonly<Record<StandardStream, OutputTarget>>,
    tell: (what: PostedKind, amount: number) => void = () => {},
  ) {
    this.#targets = targets;
    this.#tell = tell;
  }

  /** For a guest with a thread of its own: which streams go to descriptors, and how it knows that there is room in the others. */
  spec(): Pick<DedicatedSpec, 'output' | 'underway'> {
    const fdOf = (target: OutputTarget) => (isDescriptor(target) ? target : null);
    const output = { stdout: fdOf(this.#targets.stdout), stderr: fdOf(this.#targets.stderr) };
    if (streams.every((stream) => output[stream] !== null)) return { output, underway: null };
    const underway = new SharedArrayBuffer(WINDOW_BYTES);
    this.#underway = new Int32Array(underway);
    return { output, underway };
  }

  /** The first `skip` bytes go nowhere. @throws PortViolation, and whatever a callback throws */
  receive(stream: StandardStream, bytes: Uint8Array, skip = 0): void {
    const sink = this.#sink(stream);
    if (skip > 0) sink.skip(skip);
    if (skip < bytes.byteLength) sink.take(bytes.subarray(skip));
  }

  /** So much of the replayLog was taken. */
  ackReplayLog(chars: number): void {
    this.#taken('replayLog', chars);
  }

  /** The guest has ended: what still waits for a slow reader is that stream's to keep. */
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
    this.#untold ??= { stdout: 0, stderr: 0, replayLog: 0 };
    const untold = this.#untold[what] + amount;
    this.#untold[what] = untold < ACK_BATCH ? untold : 0;
    if (untold < ACK_BATCH) return;
    if (this.#underway === null) this.#tell(what, untold);
    else {
      Atomics.sub(this.#underway, windowSlots[what], untold);
      Atomics.notify(this.#underway, windowSlots[what]);
    }
  }
}

/** One stream's way out. The guest is given its room back when the bytes were taken. */
class Sink {
  readonly #target: Writable | OutputCallback;
  readonly #taken: (bytes: number) => void;
  readonly #resume = () => this.#drained();
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  /** What the stream took, although it has more than it wants. */
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
    // A stream that is closed takes nothing more: the guest goes on, its output does not.
    for (const event of ['drain', 'close', 'error']) this.#target[how](event, this.#resume);
  }
}

const isOpen = (stream: Writable) => stream.writable && !stream.destroyed;

const EMPTY = new Uint8Array();

/** Reads a stream on demand: nothing is taken from it that the guest did not ask for, beyond one chunk. */
export class StdinReader {
  readonly #open: () => Readable | null;
  #stream: Readable | null | undefined;
  #rest: Uint8Array = EMPTY;

  /** `open` is called at the first read: merely touching a process's stdin keeps it alive. */
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
      this.#stream?.on('error', () => {}); // an end like any other, also while nobody reads
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
