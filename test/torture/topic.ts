import { Random } from './random.ts';

/** One figure of a topic: a line of the table. */
export interface Finding {
  /** What was done, in a few words. */
  readonly what: string;
  readonly count: number;
  /** Answers, writes, lines or calls that are missing or twice. */
  readonly lost: number;
  /** Ends of a host or a service that nobody asked for. */
  readonly crashed: number;
  /** What was measured beside the counts, with its unit: `longest hold 31 ms`. */
  readonly measured: string;
  /** What is wrong, each with what is needed to see it again; empty: the figure is reached. */
  readonly failures: readonly string[];
}

/** What a topic found, and whether its time was up before it had done all it was to do. */
export interface TopicEnd {
  readonly findings: readonly Finding[];
  readonly wasCut: boolean;
}

/** How much a topic does, and from which numbers. */
export interface Effort {
  readonly short: boolean;
  readonly random: Random;
  /** Picks a number for the effort. */
  of(short: number, full: number): number;
  /** Whether the time given to this topic is up: what is long asks between two steps. */
  isOver(): boolean;
  /** Says on stderr how far it is, at most once a second. */
  progress(done: number, all: number): void;
}

/** A topic has a process of its own: a crash is an ending that is seen and counted, not the end of the suite. */
export type Topic = (effort: Effort) => Promise<Finding[]>;

/** Failures that are told one by one; of more only the number is told. */
const MAX_TOLD = 20;
const PROGRESS_MS = 1_000;

export function effortOf(name: string, options: { short: boolean; seed: number; endsAt: number }): Effort {
  let toldAt = performance.now();
  return {
    short: options.short,
    random: new Random(options.seed),
    of: (few, many) => (options.short ? few : many),
    isOver: () => performance.now() >= options.endsAt,
    progress: (done, all) => {
      if (options.short || performance.now() - toldAt < PROGRESS_MS) return;
      toldAt = performance.now();
      process.stderr.write(`${name}: ${done.toLocaleString('en')} of ${all.toLocaleString('en')}\n`);
    },
  };
}

/** Gathers what goes wrong without keeping a million texts. */
export class Failures {
  readonly #told: string[] = [];
  #count = 0;

  add(text: string): void {
    this.#count++;
    if (this.#told.length < MAX_TOLD) this.#told.push(text);
  }

  get count(): number {
    return this.#count;
  }

  list(): string[] {
    const ignoreWaits = this.#count - this.#told.length;
    return ignoreWaits === 0 ? [...this.#told] : [...this.#told, `and ${ignoreWaits} more`];
  }
}
