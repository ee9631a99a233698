import type { Failures } from '../topic.ts';

/** What a record is: `null` where there is none. The revision is null where the answer did not tell it. */
interface State {
  readonly value: string | null;
  readonly revision: number | null;
}

interface Entry {
  /** What was acknowledged last. */
  known: State;
  /** What was sent since then and never answered: each may have happened. */
  unanswered: State[];
}

export interface Attempt {
  acknowledged(revision: number): void;
  /** It was answered that nothing was changed. */
  refused(): void;
}

export interface ListedServer {
  readonly id: string;
  readonly value: string;
  readonly revision: number;
}

const absent: State = { value: null, revision: null };

/** What a registry has said yes to. One writer at a time writes to an id, so an id's writes have an order. */
export class Ledger {
  readonly #failures: Failures;
  readonly #entries = new Map<string, Entry>();
  /** Every revision that was acknowledged for one record, with what it was. */
  readonly #revisions = new Map<number, string>();
  #highest = 0;
  acknowledgedWrites = 0;
  lost = 0;

  constructor(failures: Failures) {
    this.#failures = failures;
  }

  /** The highest revision that anybody was told. */
  get highest(): number {
    return this.#highest;
  }

  has(id: string): boolean {
    const entry = this.#entries.get(id);
    return entry !== undefined && entry.known.value !== null;
  }

  /** Several ids at once are one write: all of it or nothing. */
  begin(ids: readonly string[], value: string | null): Attempt {
    const attempt: State = { value, revision: null };
    const before = this.#highest;
    for (const id of ids) this.#entry(id).unanswered.push(attempt);
    return {
      acknowledged: (revision) => {
        this.acknowledgedWrites++;
        if (revision <= before) this.#failures.add(`revision ${revision} came after ${before} was told`);
        if (ids.length === 1) this.saw(revision, `${ids[0]} ${value}`);
        this.#highest = Math.max(this.#highest, revision);
        for (const id of ids) {
          const entry = this.#entry(id);
          entry.known = { value, revision: ids.length === 1 ? revision : null };
          entry.unanswered = [];
        }
      },
      refused: () => {
        for (const id of ids) {
          const entry = this.#entry(id);
          entry.unanswered = entry.unanswered.filter((state) => state !== attempt);
        }
      },
    };
  }

  /** A revision is one change for ever, whoever tells of it. */
  saw(revision: number, what: string): void {
    const before = this.#revisions.get(revision);
    if (before === undefined) this.#revisions.set(revision, what);
    else if (before !== what) this.#failures.add(`revision ${revision} was "${before}" and is "${what}"`);
  }

  /** Compares with what the registry has now; from here on that is what is known. */
  check(servers: readonly ListedServer[], revision: number, when: string): void {
    if (revision < this.#highest) {
      this.lost++;
      this.#failures.add(`${when}: the registry is at ${revision}, and ${this.#highest} was told before`);
    }
    const listed = new Map(servers.map((server) => [server.id, server]));
    for (const [id, entry] of this.#entries) {
      const found = listed.get(id);
      listed.delete(id);
      const value = found?.value ?? null;
      const { known, unanswered } = entry;
      const isKnown = value === known.value && (known.revision === null || !found || found.revision === known.revision);
      if (!isKnown && !unanswered.some((state) => state.value === value)) {
        this.lost++;
        this.#failures.add(
          `${when}: ${id} is ${JSON.stringify(found ?? null)}, acknowledged: ${JSON.stringify(known)}`,
        );
      }
      entry.known = { value, revision: found?.revision ?? null };
      entry.unanswered = [];
    }
    for (const id of listed.keys()) this.#failures.add(`${when}: nobody wrote ${id}`);
    this.#highest = Math.max(this.#highest, revision);
  }

  #entry(id: string): Entry {
    let entry = this.#entries.get(id);
    if (entry === undefined) {
      entry = { known: absent, unanswered: [] };
      this.#entries.set(id, entry);
    }
    return entry;
  }
}
