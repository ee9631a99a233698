import type { DeterministicSources } from '../durable/guest/sources.ts';
import { throwTrap } from './trap.ts';

/** Receives the changes of one guest's use of its shared thread. */
export interface ScopeListener {
  /** The guest starts to run, or resumes after a wait. */
  resumed(): void;
  /** The guest is suspended. */
  suspended(): void;
  /** The guest has ended. */
  closed(): void;
}

interface Wait {
  readonly promise: Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (trap: unknown) => void;
}

/**
 * Cancellation of one guest on a shared thread. (A guest with a dedicated thread ends with its thread.) The scope owns
 * every wait of the guest, so that cancelling rejects each of them with a trap, which no guest can catch.
 */
export class CancellationScope {
  readonly #listener: ScopeListener;
  /** The guest's waits, the innermost last. */
  #waits: Wait[] = [];
  /** Created on first use: most waiting guests have nothing else to close. */
  #onEnd: Set<() => void> | null = null;
  #ended = false;
  /** False while the guest must not be suspended: in a start section that was not instrumented. */
  canSuspend = true;

  constructor(listener: ScopeListener) {
    this.#listener = listener;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The guest starts; false: it was cancelled before. */
  start(): boolean {
    if (this.#ended) return false;
    this.#listener.resumed();
    return true;
  }

  /** Puts a possible wait under this scope: a promise comes back as one that cancellation rejects. */
  guard<T>(value: T): T | Promise<Awaited<T>> {
    if (this.#ended) return throwTrap();
    return value instanceof Promise ? this.#guarded(value) : value;
  }

  /** As {@link guard}, for an import that the guest may call where it cannot be suspended. */
  guardCall<T>(value: T): T | Promise<Awaited<T>> {
    if (!this.canSuspend && value instanceof Promise)
      throw new WebAssembly.SuspendError('the guest cannot be suspended here');
    return this.guard(value);
  }

  #guarded<T>(value: Promise<T>): Promise<Awaited<T>> {
    this.#listener.suspended();
    const wait: Wait = Promise.withResolvers<unknown>();
    this.#waits.push(wait);
    value.then(
      (settled) => this.#resume(wait) && wait.resolve(settled),
      (error) => this.#resume(wait) && wait.reject(error),
    );
    return wait.promise as Promise<Awaited<T>>;
  }

  /** Ends a wait; false: it was cancelled. */
  #resume(wait: Wait): boolean {
    const at = this.#waits.lastIndexOf(wait);
    if (at < 0) return false;
    this.#waits.splice(at, 1);
    this.#listener.resumed();
    return true;
  }

  /** Calls `close` when the guest ends, unless the returned function is called before. */
  atEnd(close: () => void): () => void {
    this.#onEnd ??= new Set();
    this.#onEnd.add(close);
    return () => this.#onEnd?.delete(close);
  }

  /** Cancels the guest: rejects its waits, the innermost first, as a trap would pass through them. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    const waits = this.#waits.reverse();
    this.#waits = [];
    for (const { reject } of waits) reject(newTrap());
    this.close();
  }

  /** The guest has ended: runs what was registered with {@link atEnd}. */
  close(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    for (const close of onEnd ?? []) close();
    this.#listener.closed();
  }
}

function newTrap(): unknown {
  try {
    return throwTrap();
  } catch (trap) {
    return trap;
  }
}

/** An import that may suspend the guest. `scope` null: the guest has a dedicated thread. */
export function suspending(scope: CancellationScope | null, call: (...args: never[]) => unknown) {
  if (scope === null) return new WebAssembly.Suspending(call);
  return new WebAssembly.Suspending((...args: never[]) => scope.guardCall(call(...args)));
}

/** Clock and entropy whose timers end with the guest. A class, because one closure per method would cost every guest memory. */
export class CancellableSources implements DeterministicSources {
  readonly #scope: CancellationScope;
  readonly #sources: DeterministicSources;

  constructor(scope: CancellationScope, sources: DeterministicSources) {
    this.#scope = scope;
    this.#sources = sources;
  }

  wallMs(): number {
    return this.#sources.wallMs();
  }

  monotonicNs(): bigint {
    return this.#sources.monotonicNs();
  }

  fillRandom(bytes: Uint8Array): void {
    this.#sources.fillRandom(bytes);
  }

  randomI64(): bigint {
    return this.#sources.randomI64();
  }

  after(ms: number, fire: () => void): () => void {
    const forget = this.#scope.atEnd(() => stop());
    const stop = this.#sources.after(ms, () => {
      forget();
      fire();
    });
    return () => {
      forget();
      stop();
    };
  }
}
