import type { Writable } from 'node:stream';
import { ConfigError } from '../config/config-error.ts';
import { refuseUnknownKeys } from '../config/option-keys.ts';
import { MAX_UNDERWAY, type StandardStream, UNDERWAY_BYTES, underwayAt } from '../protocol/guest-spec.ts';
import { PortViolation } from '../protocol/port.ts';

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

const isWritable = (target: unknown): target is Writable =>
  typeof target === 'object' && target !== null && typeof (target as Writable).write === 'function';

/** The host's end of what a guest writes, where it does not go to descriptors. */
export class GuestOutput {
  /** For the guest's thread: null where the output comes here. */
  readonly fds: Readonly<Record<StandardStream, number | null>>;
  readonly underway: SharedArrayBuffer | null;
  readonly #sinks: ReadonlyMap<StandardStream, Sink>;

  constructor(targets: Readonly<Record<StandardStream, OutputTarget>>) {
    const fdOf = (target: OutputTarget) => (typeof target === 'number' ? target : null);
    this.fds = { stdout: fdOf(targets.stdout), stderr: fdOf(targets.stderr) };
    const posted = streams.filter((stream) => this.fds[stream] === null);
    const shared = posted.length === 0 ? null : new SharedArrayBuffer(UNDERWAY_BYTES);
    this.underway = shared;
    this.#sinks = new Map(
      posted.map((stream) => [
        stream,
        new Sink(targets[stream] as Exclude<OutputTarget, number>, taker(shared, stream)),
      ]),
    );
  }

  /** @throws PortViolation, and whatever a callback throws */
  receive(stream: StandardStream, bytes: Uint8Array): void {
    const sink = this.#sinks.get(stream);
    if (sink === undefined) throw new PortViolation(`${stream} was posted`);
    sink.take(bytes);
  }

  /** The guest has ended: what still waits for a slow reader is that stream's to keep. */
  finish(): void {
    for (const sink of this.#sinks.values()) sink.finish();
  }
}

function taker(shared: SharedArrayBuffer | null, stream: StandardStream): (bytes: number) => void {
  const counts = new Int32Array(shared ?? new SharedArrayBuffer(UNDERWAY_BYTES));
  return (bytes) => {
    Atomics.sub(counts, underwayAt[stream], bytes);
    Atomics.notify(counts, underwayAt[stream]);
  };
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
    if (this.#waitingBytes > MAX_UNDERWAY) throw new PortViolation('more output than there is room for');
    this.#waiting.push(bytes);
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
