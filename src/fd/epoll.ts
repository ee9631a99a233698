import { ALWAYS } from './readiness.ts';
import { FdEntry, type FdTable } from './table.ts';

export interface ReadyFd {
  readonly fd: number;
  readonly events: number;
}

/** A set of descriptors and the events that matter to the guest. Level-triggered: it holds no state of its own. */
export class Epoll extends FdEntry {
  readonly kind = 'Epoll';
  readonly #interest = new Map<number, number>();

  set(fd: number, events: number): void {
    this.#interest.set(fd, events);
  }

  has(fd: number): boolean {
    return this.#interest.has(fd);
  }

  delete(fd: number): void {
    this.#interest.delete(fd);
  }

  /** By ascending descriptor. */
  ready(fds: FdTable): ReadyFd[] {
    const ready: ReadyFd[] = [];
    for (const [fd, events] of this.#interest) {
      const now = (fds.get(fd)?.readiness() ?? 0) & (events | ALWAYS);
      if (now) ready.push({ fd, events: now });
    }
    return ready.sort((a, b) => a.fd - b.fd);
  }

  readiness(): number {
    return 0;
  }

  override forget(fd: number): void {
    this.#interest.delete(fd);
  }

  release(): void {
    this.#interest.clear();
  }
}
