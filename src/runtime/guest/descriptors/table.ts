/*
 * Descriptor table of one guest: entries of all kinds under numbers that rise and are never reused, so that a stale
 * descriptor is always EBADF. `FdEntry` is an entry, `PendingEntry` one that the host works on, `FdPages` the storage.
 */
import { type Failure, fail } from '../../abi/errno.ts';
import { ERR, HUP, IN } from './readiness.ts';

export type FdKind =
  | 'ChatSession'
  | 'ChatResponse'
  | 'McpSession'
  | 'McpCall'
  | 'Epoll'
  | 'UserStream'
  | 'UserStreamCtl';

/** The object behind a descriptor. */
export abstract class FdEntry {
  abstract readonly kind: FdKind;
  nonblocking = false;

  /** Current epoll bits. */
  abstract readiness(): number;
  /** Releases what the entry holds and cancels what is pending on it. Called once. */
  abstract release(): void;
  /** Another descriptor was closed; only epoll sets use this. */
  forget(_fd: number): void {}
  /** Cancels what is pending. */
  cancel(): void {}
}

const FIRST_FD = 1000;

export class FdTable {
  readonly #entries = new FdPages<FdEntry>();
  // Created with the first descriptor: most waiting guests have none.
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

  /** Closing twice returns 0 (existing guests rely on it); a number that was never opened is EBADF. */
  close(fd: number): number | Failure {
    const entry = this.#entries.get(fd);
    if (!entry) return fd >= FIRST_FD && fd < this.#next ? 0 : fail.EBADF;
    this.#entries.delete(fd);
    this.#counts?.set(entry.kind, this.count(entry.kind) - 1);
    this.#sets?.delete(entry);
    entry.release();
    if (entry.kind === 'Epoll') return 0; // a set cannot contain another set
    for (const set of this.#sets ?? []) set.forget(fd);
    return 0;
  }

  closeAll(): void {
    this.#sets = null; // sets are closed too, so they need not forget entries
    for (const fd of this.#entries.numbers()) this.close(fd);
  }

  count(kind: FdKind): number {
    return this.#counts?.get(kind) ?? 0;
  }
}

/** Counter of retained response bytes. */
export interface AnswerCount {
  answerBytes: number;
}

/** UTF-8, or text that is encoded into guest memory. */
export type Answer = Uint8Array | string;

/** Size in guest memory. */
export const bytesOf = (answer: Answer): number =>
  typeof answer === 'string' ? Buffer.byteLength(answer) : answer.byteLength;

/** A descriptor of work in the host. It completes or is cancelled, once. */
export abstract class PendingEntry extends FdEntry {
  /** Result of a read; EAGAIN while pending. */
  #body: Answer | Failure = fail.EAGAIN;
  #metrics = '{}';
  readonly #onCancel: () => void;
  #count: AnswerCount | undefined;
  /** The share of this entry in {@link #count}. */
  #counted = 0;

  /** `onCancel` cancels the work in the host; called at most once, and never after completion. */
  constructor(onCancel: () => void) {
    super();
    this.#onCancel = onCancel;
  }

  get pending(): boolean {
    return this.#body === fail.EAGAIN;
  }

  /** The body counts until the descriptor is closed. `count`: missing for a call without a descriptor. */
  complete(body: Answer, metrics: string, count?: AnswerCount): void {
    if (!this.pending) return;
    this.#body = body;
    this.#metrics = metrics;
    if (!count) return;
    this.#count = count;
    this.#counted = bytesOf(body);
    count.answerBytes += this.#counted;
  }

  override cancel(): void {
    if (!this.pending) return;
    this.#body = fail.ECANCELED;
    this.#onCancel();
  }

  /** The same on every call. */
  body(): Answer | Failure {
    return this.#body;
  }

  metrics(): string | Failure {
    return this.pending ? fail.EAGAIN : this.#metrics;
  }

  readiness(): number {
    if (this.#body === fail.EAGAIN) return 0;
    return this.#body === fail.ECANCELED ? ERR | HUP : IN;
  }

  release(): void {
    this.cancel();
    if (this.#count) this.#count.answerBytes -= this.#counted;
    this.#count = undefined;
  }
}

const PAGE_BITS = 6;
const PAGE_SIZE = 1 << PAGE_BITS;
const IN_PAGE = PAGE_SIZE - 1;

interface Page<Entry> {
  readonly entries: (Entry | undefined)[];
  live: number;
}

/**
 * Entries under rising numbers, in pages that are dropped with their last entry. perf: a map would hash every number; here a
 * number in the most recent page costs two loads.
 */
export class FdPages<Entry> {
  /** Created with the first entry. */
  #pages: Map<number, Page<Entry>> | null = null;
  #lastNumber = -1;
  #last: Page<Entry> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(number: number): Entry | undefined {
    const pageNumber = number >> PAGE_BITS;
    const page = pageNumber === this.#lastNumber ? this.#last : this.#find(pageNumber);
    return page?.entries[number & IN_PAGE];
  }

  /** Precondition: the number was never set before. */
  set(number: number, entry: Entry): void {
    const pageNumber = number >> PAGE_BITS;
    const page = this.#page(pageNumber) ?? this.#newPage(pageNumber);
    page.entries[number & IN_PAGE] = entry;
    page.live++;
    this.#size++;
  }

  delete(number: number): void {
    const pageNumber = number >> PAGE_BITS;
    const page = this.#page(pageNumber);
    if (page?.entries[number & IN_PAGE] === undefined) return;
    page.entries[number & IN_PAGE] = undefined;
    page.live--;
    this.#size--;
    // Numbers rise, so a page whose last slot was used gets no new entry.
    if (page.live === 0 && page.entries.length === PAGE_SIZE) this.#drop(pageNumber);
  }

  /** In ascending order. */
  numbers(): number[] {
    return [...(this.#pages ?? [])].flatMap(([pageNumber, { entries }]) =>
      entries.flatMap((entry, at) => (entry === undefined ? [] : [pageNumber * PAGE_SIZE + at])),
    );
  }

  #page(pageNumber: number): Page<Entry> | undefined {
    return pageNumber === this.#lastNumber ? this.#last : this.#find(pageNumber);
  }

  #find(pageNumber: number): Page<Entry> | undefined {
    const page = this.#pages?.get(pageNumber);
    if (page) {
      this.#lastNumber = pageNumber;
      this.#last = page;
    }
    return page;
  }

  #newPage(pageNumber: number): Page<Entry> {
    const page: Page<Entry> = { entries: [], live: 0 };
    this.#pages ??= new Map();
    this.#pages.set(pageNumber, page);
    this.#lastNumber = pageNumber;
    this.#last = page;
    return page;
  }

  #drop(pageNumber: number): void {
    this.#pages?.delete(pageNumber);
    this.#lastNumber = -1;
    this.#last = undefined;
  }
}
