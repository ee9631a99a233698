import { type Failure, fail } from '../../abi/errno.ts';
import { FdPages } from './fd-pages.ts';

export type FdKind =
  | 'ChatSession'
  | 'ChatResponse'
  | 'McpSession'
  | 'McpCall'
  | 'Epoll'
  | 'UserStream'
  | 'UserStreamCtl';

/** What stands behind a descriptor. */
export abstract class FdEntry {
  abstract readonly kind: FdKind;
  nonblocking = false;

  /** The epoll bits that hold now. */
  abstract readiness(): number;
  /** Lets go of what the entry holds and cancels what is pending on it. Called once. */
  abstract release(): void;
  /** Another descriptor was closed; only sets of descriptors care. */
  forget(_fd: number): void {}
  /** Cancels what is pending, if anything. */
  cancel(): void {}
}

const FIRST_FD = 1000;

/**
 * One table per instance for all kinds. Numbers rise and are never reused: a stale descriptor is always EBADF, never
 * somebody else's.
 */
export class FdTable {
  readonly #entries = new FdPages<FdEntry>();
  // Made with the first descriptor: thousands of guests wait that have none.
  #sets: Set<FdEntry> | null = null;
  #counts: Map<FdKind, number> | null = null;
  readonly #limit: number;
  #next = FIRST_FD;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#entries.size;
  }

  get full(): boolean {
    return this.#entries.size >= this.#limit;
  }

  open(entry: FdEntry): number | Failure {
    if (this.full) return fail.EMFILE;
    const fd = this.#next++;
    this.#entries.set(fd, entry);
    this.#counts ??= new Map();
    this.#counts.set(entry.kind, this.count(entry.kind) + 1);
    if (entry.kind === 'Epoll') {
      this.#sets ??= new Set();
      this.#sets.add(entry);
    }
    return fd;
  }

  get(fd: number): FdEntry | undefined {
    return this.#entries.get(fd);
  }

  /** Guests rely on closing twice being fine, so only a number that was never handed out is an error. */
  close(fd: number): number | Failure {
    const entry = this.#entries.get(fd);
    if (!entry) return fd >= FIRST_FD && fd < this.#next ? 0 : fail.EBADF;
    this.#entries.delete(fd);
    this.#counts?.set(entry.kind, this.count(entry.kind) - 1);
    this.#sets?.delete(entry);
    entry.release();
    if (entry.kind === 'Epoll') return 0; // no set can hold another
    for (const set of this.#sets ?? []) set.forget(fd);
    return 0;
  }

  closeAll(): void {
    this.#sets = null; // they end as well: none has to be told of the others
    for (const fd of this.#entries.numbers()) this.close(fd);
  }

  count(kind: FdKind): number {
    return this.#counts?.get(kind) ?? 0;
  }
}
