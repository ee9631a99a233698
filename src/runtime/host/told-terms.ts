import type { GuestTerms } from '../port/guest-spec.ts';

/** Tasks whose runs come in turns on one thread; beyond it a thread is told again. */
const MAX_TERMS = 64;

interface Known {
  readonly key: number;
  readonly terms: GuestTerms;
}

/** What a thread was told that many of its guests have in common: sending it with each would cost more than starting one. */
export class ToldTerms {
  readonly #tell: (key: number, terms: GuestTerms) => void;
  readonly #forget: (key: number) => void;
  readonly #known: Known[] = [];
  #next = 1;

  constructor(tell: (key: number, terms: GuestTerms) => void, forget: (key: number) => void) {
    this.#tell = tell;
    this.#forget = forget;
  }

  /** The number by which the thread knows them. */
  key({ args, limits, mcpTask, servesStreams, verbose }: GuestTerms): number {
    const terms: GuestTerms = { args, limits, mcpTask, servesStreams, verbose };
    const known = this.#known.findLast((each) => areSame(each.terms, terms));
    if (known !== undefined) return known.key;
    const oldest = this.#known.length < MAX_TERMS ? undefined : this.#known.shift();
    if (oldest !== undefined) this.#forget(oldest.key);
    const key = this.#next++;
    this.#known.push({ key, terms });
    this.#tell(key, terms);
    return key;
  }
}

/** Limits and policies are frozen: one that is another object may be another. */
const areSame = (one: GuestTerms, other: GuestTerms): boolean =>
  one.limits === other.limits &&
  one.mcpTask === other.mcpTask &&
  one.servesStreams === other.servesStreams &&
  one.verbose === other.verbose &&
  one.args.length === other.args.length &&
  one.args.every((arg, index) => arg === other.args[index]);
