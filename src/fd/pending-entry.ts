import { type Failure, fail } from '../abi/errno.ts';
import { ERR, HUP, IN } from './readiness.ts';
import { FdEntry } from './table.ts';

/** A descriptor of something that the host is working on: it becomes done once, or canceled. */
export abstract class PendingEntry extends FdEntry {
  #body: Uint8Array | undefined;
  #metrics = '{}';
  #canceled = false;
  readonly #onCancel: () => void;

  /** `onCancel` tells the host to stop; it is called at most once, and never after the result came. */
  constructor(onCancel: () => void) {
    super();
    this.#onCancel = onCancel;
  }

  get pending(): boolean {
    return this.#body === undefined && !this.#canceled;
  }

  complete(body: Uint8Array, metrics: string): void {
    if (!this.pending) return;
    this.#body = body;
    this.#metrics = metrics;
  }

  override cancel(): void {
    if (!this.pending) return;
    this.#canceled = true;
    this.#onCancel();
  }

  /** The same bytes on every call. */
  body(): Uint8Array | Failure {
    return this.#body ?? (this.#canceled ? fail.ECANCELED : fail.EAGAIN);
  }

  metrics(): string | Failure {
    return this.pending ? fail.EAGAIN : this.#metrics;
  }

  readiness(): number {
    return this.#canceled ? ERR | HUP : this.#body ? IN : 0;
  }

  release(): void {
    this.cancel();
  }
}
