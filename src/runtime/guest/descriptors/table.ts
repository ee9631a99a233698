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

/** Counts what is kept for a guest. */
export interface AnswerCount {
  answerBytes: number;
}

/** UTF-8, or text that becomes UTF-8 on its way into the guest's memory. */
export type Answer = Uint8Array | string;

/** In the guest's memory. */
export const bytesOf = (answer: Answer): number =>
  typeof answer === 'string' ? Buffer.byteLength(answer) : answer.byteLength;

/** A descriptor of something that the host is working on: it becomes done once, or canceled. */
export abstract class PendingEntry extends FdEntry {
  /** What a read gives now: EAGAIN until it is done or canceled. */
  #body: Answer | Failure = fail.EAGAIN;
  #metrics = '{}';
  readonly #onCancel: () => void;
  #count: AnswerCount | undefined;
  /** What {@link #count} has of it. */
  #counted = 0;

  /** `onCancel` tells the host to stop; it is called at most once, and never after the result came. */
  constructor(onCancel: () => void) {
    super();
    this.#onCancel = onCancel;
  }

  get pending(): boolean {
    return this.#body === fail.EAGAIN;
  }

  /** The answer counts until the descriptor is closed; a call that has none passes no count. */
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

  /** The same bytes on every call. */
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
 * Entries under numbers that only rise, in pages that go away with their last entry. A map with an entry for each would
 * hash every number and spread neighbours over its memory; here a number in the page of the last one costs two loads.
 */
export class FdPages<Entry> {
  /** Made with the first entry. */
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
    // The last place of a page is taken last, so a page whose last place was used will not be needed again.
    if (page.live === 0 && page.entries.length === PAGE_SIZE) this.#drop(pageNumber);
  }

  /** In rising order. */
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
