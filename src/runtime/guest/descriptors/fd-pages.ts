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
