import type { DeterministicSources } from '../durable/guest/sources.ts';
import { throwTrap } from './trap.ts';

/** Who is told when a guest of many has the thread, lets go of it, and is no more. */
export interface ScopeListener {
  resumes(): void;
  waits(): void;
  closed(): void;
}

interface Frame {
  readonly promise: Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (trap: unknown) => void;
}

/**
 * What one guest of many is ended by: a guest with a thread of its own ends with the thread. It holds every wait of the
 * guest, so that each can be made to end in a trap, which no guest can catch.
 */
export class CancellationScope {
  readonly #hold: ScopeListener;
  /** Its waits, the innermost last. */
  #frames: Frame[] = [];
  /** Made when somebody asks: most guests that wait have nothing else to be told of. */
  #closing: Set<() => void> | null = null;
  #ended = false;
  /** While it is not set, nothing may wait, as in the start section of a module that nobody went over. */
  canSuspend = true;

  constructor(hold: ScopeListener) {
    this.#hold = hold;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The guest has the thread for the first time; false: it was ended before. */
  begins(): boolean {
    if (this.#ended) return false;
    this.#hold.resumes();
    return true;
  }

  /** What a call gives that may wait: as it is, or as a promise that the guest's end rejects. */
  hold<T>(given: T): T | Promise<Awaited<T>> {
    if (this.#ended) return throwTrap();
    if (!(given instanceof Promise)) return given;
    return this.#held(given);
  }

  /** The same for a call of the guest's own, which may be made where nothing can wait. */
  guardCall<T>(given: T): T | Promise<Awaited<T>> {
    if (!this.canSuspend && given instanceof Promise)
      throw new WebAssembly.SuspendError('the guest cannot be suspended here');
    return this.hold(given);
  }

  #held<T>(given: Promise<T>): Promise<Awaited<T>> {
    this.#hold.waits();
    const frame: Frame = Promise.withResolvers<unknown>();
    this.#frames.push(frame);
    given.then(
      (value) => this.#isOver(frame) && frame.resolve(value),
      (error) => this.#isOver(frame) && frame.reject(error),
    );
    return frame.promise as Promise<Awaited<T>>;
  }

  /** Whether the guest still waits there: then it has the thread again. */
  #isOver(frame: Frame): boolean {
    const at = this.#frames.lastIndexOf(frame);
    if (at < 0) return false;
    this.#frames.splice(at, 1);
    this.#hold.resumes();
    return true;
  }

  /** Called when the guest ends, unless what this gives is called before. */
  atEnd(close: () => void): () => void {
    this.#closing ??= new Set();
    this.#closing.add(close);
    return () => this.#closing?.delete(close);
  }

  /** Ends the guest where it waits: the innermost wait first, as a trap would go through it. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    const frames = this.#frames.reverse();
    this.#frames = [];
    for (const { reject } of frames) reject(aTrap());
    this.close();
  }

  /** Nothing of the guest is to happen any more. */
  close(): void {
    const closing = this.#closing;
    this.#closing = null;
    for (const close of closing ?? []) close();
    this.#hold.closed();
  }
}

function aTrap(): unknown {
  try {
    return throwTrap();
  } catch (trap) {
    return trap;
  }
}

/** An import that may wait. */
export function suspending(
  scope: CancellationScope | null,
  call: (...args: never[]) => unknown,
): WebAssembly.Suspending {
  if (scope === null) return new WebAssembly.Suspending(call);
  return new WebAssembly.Suspending((...args: never[]) => scope.guardCall(call(...args)));
}

/** Time and dice of one guest of many: what it waits for ends with it. */
export class CancellableSources implements DeterministicSources {
  readonly #scope: CancellationScope;
  readonly #drawn: DeterministicSources;

  constructor(scope: CancellationScope, drawn: DeterministicSources) {
    this.#scope = scope;
    this.#drawn = drawn;
  }

  wallMs(): number {
    return this.#drawn.wallMs();
  }

  monotonicNs(): bigint {
    return this.#drawn.monotonicNs();
  }

  fillRandom(bytes: Uint8Array): void {
    this.#drawn.fillRandom(bytes);
  }

  randomI64(): bigint {
    return this.#drawn.randomI64();
  }

  after(ms: number, fire: () => void): () => void {
    const forget = this.#scope.atEnd(() => stop());
    const stop = this.#drawn.after(ms, () => {
      forget();
      fire();
    });
    return () => {
      forget();
      stop();
    };
  }
}
