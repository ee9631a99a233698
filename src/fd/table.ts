import { type Failure, fail } from '../abi/errno.ts';

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

/** Descriptors that are found without asking the map: a power of two, so that neighbours never share a place. */
const RECENT = 64;

/**
 * One table per instance for all kinds. Numbers rise and are never reused: a stale descriptor is always EBADF, never
 * somebody else's.
 */
export class FdTable {
  readonly #entries = new Map<number, FdEntry>();
  readonly #recentFds = new Int32Array(RECENT);
  readonly #recent: (FdEntry | undefined)[] = Array.from({ length: RECENT }, () => undefined);
  readonly #sets = new Set<FdEntry>();
  readonly #counts = new Map<FdKind, number>();
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
    this.#counts.set(entry.kind, this.count(entry.kind) + 1);
    if (entry.kind === 'Epoll') this.#sets.add(entry);
    return fd;
  }

  get(fd: number): FdEntry | undefined {
    const place = fd & (RECENT - 1);
    if (this.#recentFds[place] === fd) return this.#recent[place];
    const entry = this.#entries.get(fd);
    if (entry) {
      this.#recentFds[place] = fd;
      this.#recent[place] = entry;
    }
    return entry;
  }

  /** Guests rely on closing twice being fine, so only a number that was never handed out is an error. */
  close(fd: number): number | Failure {
    const entry = this.#entries.get(fd);
    if (!entry) return fd >= FIRST_FD && fd < this.#next ? 0 : fail.EBADF;
    this.#entries.delete(fd);
    this.#forgetRecent(fd);
    this.#counts.set(entry.kind, this.count(entry.kind) - 1);
    this.#sets.delete(entry);
    entry.release();
    for (const set of this.#sets) set.forget(fd);
    return 0;
  }

  #forgetRecent(fd: number): void {
    const place = fd & (RECENT - 1);
    if (this.#recentFds[place] !== fd) return;
    this.#recentFds[place] = 0;
    this.#recent[place] = undefined;
  }

  closeAll(): void {
    for (const fd of [...this.#entries.keys()]) this.close(fd);
  }

  count(kind: FdKind): number {
    return this.#counts.get(kind) ?? 0;
  }
}
