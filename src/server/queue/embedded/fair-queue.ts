import type { Line } from '../run-queue.ts';

/** A run that waits. */
export interface Queued {
  readonly seq: number;
  readonly id: string;
  readonly since: number;
}

interface Waiting extends Line {
  readonly queued: Queued[];
}

/** Who waits, in memory: one line for each task and caller, and the lines take turns. The disk has the same. */
export class Lines {
  /** By pool, then by line; the line whose turn is next comes first. */
  readonly #pools = new Map<string, Map<string, Waiting>>();
  /** Of all that wait; what is not in here is passed over when its turn comes. */
  readonly #waiting = new Set<number>();

  get size(): number {
    return this.#waiting.size;
  }

  add(pool: string, line: Line, queued: Queued, where: 'head' | 'tail'): void {
    const lines = this.#pools.get(pool) ?? new Map<string, Waiting>();
    this.#pools.set(pool, lines);
    const key = `${line.namespace}/${line.task} ${line.submittedBy}`;
    const waiting = lines.get(key) ?? { ...line, queued: [] };
    lines.set(key, waiting);
    if (where === 'head') waiting.queued.unshift(queued);
    else waiting.queued.push(queued);
    this.#waiting.add(queued.seq);
  }

  /** It does not wait any more. */
  remove(seq: number): void {
    this.#waiting.delete(seq);
  }

  /** At most `max`, one of each line that has room until nobody is left or has room. */
  take(pool: string, max: number, hasRoom: (line: Line) => boolean): Queued[] {
    const taken: Queued[] = [];
    const lines = this.#pools.get(pool);
    if (lines === undefined) return taken;
    for (let passed = 0; passed < lines.size && taken.length < max; ) {
      const [key, line] = lines.entries().next().value as [string, Waiting];
      // To the end: whoever had a turn is last in the next round.
      lines.delete(key);
      const next = this.#first(line);
      if (next === undefined) continue;
      lines.set(key, line);
      if (!hasRoom(line)) {
        passed += 1;
        continue;
      }
      line.queued.shift();
      passed = 0;
      this.#waiting.delete(next.seq);
      taken.push(next);
    }
    return taken;
  }

  oldest(): number | null {
    let oldest: number | null = null;
    for (const lines of this.#pools.values()) {
      for (const line of lines.values()) {
        const since = this.#first(line)?.since;
        if (since !== undefined && (oldest === null || since < oldest)) oldest = since;
      }
    }
    return oldest;
  }

  #first(line: Waiting): Queued | undefined {
    for (;;) {
      const first = line.queued[0];
      if (first === undefined || this.#waiting.has(first.seq)) return first;
      line.queued.shift();
    }
  }
}
