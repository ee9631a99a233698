import { journalKey } from '../journal/block-cipher.ts';
import { readJournal } from '../journal/read-journal.ts';
import type { Timeline } from '../journal/timeline-entry.ts';
import type { NatsJournals } from '../queue/nats/nats-journals.ts';
import type { Claim } from '../queue/run-queue.ts';
import type { JournalMode, JournalOption } from '../run/journal-option.ts';
import type { Secret } from '../secrets/secret.ts';
import { type EarlierAttempt, type RunJournals, shownTimeline, summary } from './run-journals.ts';

/** Journals that every node of a cluster can go on with. */
export class ClusterJournals implements RunJournals {
  readonly #journals: NatsJournals;
  readonly #key: Secret | null;
  /** What was read for a claim, until its guest begins. */
  readonly #read = new WeakMap<Claim, Uint8Array>();

  constructor(journals: NatsJournals, key: Secret | null) {
    this.#journals = journals;
    this.#key = key;
  }

  option(claim: Claim, mode: JournalMode): JournalOption {
    const { namespace, id } = claim.run;
    const bytes = this.#read.get(claim) ?? null;
    this.#read.delete(claim);
    const place = this.#journals.place(claim, bytes);
    return { file: this.#journals.name(namespace, id), place, mode, key: this.#key?.reveal() ?? null };
  }

  async earlier(claim: Claim): Promise<EarlierAttempt | null> {
    const { namespace, id } = claim.run;
    const bytes = await this.#journals.own(claim);
    if (bytes === null) return null;
    this.#read.set(claim, bytes);
    const key = this.#key === null ? null : journalKey(this.#key.reveal());
    return summary(readJournal(this.#journals.name(namespace, id), key, bytes).records);
  }

  read(namespace: string, run: string): Promise<Uint8Array | null> {
    return this.#journals.read(namespace, run);
  }

  async timeline(namespace: string, run: string): Promise<Timeline> {
    return shownTimeline(run, await this.read(namespace, run), this.#key);
  }

  remove(namespace: string, run: string): Promise<void> {
    return this.#journals.remove(namespace, run);
  }
}
