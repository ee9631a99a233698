import type { QueueKey } from '../run-queue.ts';

export interface QueuedRun {
  readonly seq: number;
  readonly id: string;
  readonly since: number;
}

interface KeyQueue extends QueueKey {
  readonly runs: QueuedRun[];
}

/** In-memory index of queued runs: one FIFO per task and caller, served round robin. */
export class FairQueue {
  /** By pool, then by key; the next key to serve comes first. */
  readonly #pools = new Map<string, Map<string, KeyQueue>>();
  /** Sequence numbers of all queued runs. A run that is not in this set is skipped. */
  readonly #waiting = new Set<number>();

  get size(): number {
    return this.#waiting.size;
  }

  add(pool: string, key: QueueKey, run: QueuedRun, where: 'head' | 'tail'): void {
    const queues = this.#pools.get(pool) ?? new Map<string, KeyQueue>();
    this.#pools.set(pool, queues);
    const name = `${key.namespace}/${key.task} ${key.submittedBy}`;
    const queue = queues.get(name) ?? { ...key, runs: [] };
    queues.set(name, queue);
    if (where === 'head') queue.runs.unshift(run);
    else queue.runs.push(run);
    this.#waiting.add(run.seq);
  }

  remove(seq: number): void {
    this.#waiting.delete(seq);
  }

  /** Takes at most `max` runs, one per key and round, until no key has both a run and room. */
  take(pool: string, max: number, hasRoom: (key: QueueKey) => boolean): QueuedRun[] {
    const taken: QueuedRun[] = [];
    const queues = this.#pools.get(pool);
    if (queues === undefined) return taken;
    for (let rejected = 0; rejected < queues.size && taken.length < max; ) {
      const [name, queue] = queues.entries().next().value as [string, KeyQueue];
      queues.delete(name);
      const next = this.#first(queue);
      if (next === undefined) continue;
      queues.set(name, queue); // last in the next round
      if (!hasRoom(queue)) {
        rejected += 1;
        continue;
      }
      queue.runs.shift();
      rejected = 0;
      this.#waiting.delete(next.seq);
      taken.push(next);
    }
    return taken;
  }

  oldest(): number | null {
    let oldest: number | null = null;
    for (const queues of this.#pools.values()) {
      for (const queue of queues.values()) {
        const since = this.#first(queue)?.since;
        if (since !== undefined && (oldest === null || since < oldest)) oldest = since;
      }
    }
    return oldest;
  }

  #first({ runs }: KeyQueue): QueuedRun | undefined {
    for (;;) {
      const first = runs[0];
      if (first === undefined || this.#waiting.has(first.seq)) return first;
      runs.shift();
    }
  }
}
