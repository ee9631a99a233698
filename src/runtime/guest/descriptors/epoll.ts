import { ALWAYS } from './readiness.ts';
import { FdEntry } from './table.ts';

/** Bytes of one record: i32 fd, i32 events. */
export const RECORD_BYTES = 8;

interface Interest {
  readonly fd: number;
  readonly entry: FdEntry;
  events: number;
}

const NOTHING = new Uint8Array();
/** Initial records of all sets; replaced before the first write. */
const NO_RECORDS = new DataView(new ArrayBuffer(0));
const FIRST_RECORDS = 8;

/**
 * A set of descriptors with event masks. Level-triggered: readiness is computed on every call. A closed entry leaves the set
 * ({@link forget}), so the set may hold entries directly.
 */
export class Epoll extends FdEntry {
  readonly kind = 'Epoll';
  readonly #interest = new Map<number, Interest>();
  /** By ascending descriptor; undefined after a change of the set. */
  #sorted: readonly Interest[] | undefined;
  #records = NO_RECORDS;
  #view = NOTHING;

  set(fd: number, entry: FdEntry, events: number): void {
    const known = this.#interest.get(fd);
    if (known) known.events = events;
    else {
      this.#interest.set(fd, { fd, entry, events });
      this.#sorted = undefined;
    }
  }

  has(fd: number): boolean {
    return this.#interest.has(fd);
  }

  delete(fd: number): void {
    if (this.#interest.delete(fd)) this.#sorted = undefined;
  }

  /** Records of at most `most` ready entries, by ascending descriptor. Valid until the next call. */
  ready(most: number): Uint8Array {
    this.#sorted ??= [...this.#interest.values()].sort((a, b) => a.fd - b.fd);
    let count = 0;
    const sorted = this.#sorted;
    for (let at = 0; at < sorted.length && count < most; at++) {
      const { fd, entry, events } = sorted[at] as Interest;
      const now = entry.readiness() & (events | ALWAYS);
      if (now) this.#write(count++, fd, now);
    }
    return count === 0 ? NOTHING : this.#first(count);
  }

  readiness(): number {
    return 0;
  }

  override forget(fd: number): void {
    this.delete(fd);
  }

  release(): void {
    this.#interest.clear();
    this.#sorted = undefined;
  }

  /** perf: the view is reused, because consecutive waits mostly return the same number of records. */
  #first(count: number): Uint8Array {
    if (this.#view.byteLength !== count * RECORD_BYTES) {
      this.#view = new Uint8Array(this.#records.buffer, 0, count * RECORD_BYTES);
    }
    return this.#view;
  }

  #write(index: number, fd: number, events: number): void {
    if ((index + 1) * RECORD_BYTES > this.#records.byteLength) {
      const larger = new Uint8Array(Math.max(FIRST_RECORDS * RECORD_BYTES, this.#records.byteLength * 2));
      larger.set(new Uint8Array(this.#records.buffer));
      this.#records = new DataView(larger.buffer);
      this.#view = NOTHING;
    }
    this.#records.setInt32(index * RECORD_BYTES, fd, true);
    this.#records.setInt32(index * RECORD_BYTES + 4, events, true);
  }
}
