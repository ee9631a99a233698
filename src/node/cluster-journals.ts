import type { JournalMode, JournalOption } from '../run/run-options.ts';
import type { JournalStorage } from '../runtime/durable/journal-file.ts';
import { SubjectJournal } from '../server/queue/nats/journal-writer.ts';
import { NatsJournals } from '../server/queue/nats/nats-journals.ts';
import type { NatsQueue } from '../server/queue/nats/nats-queue.ts';
import { journalSubject } from '../server/queue/nats/streams.ts';
import type { Claim } from '../server/queue/run-queue.ts';
import type { Secret } from '../server/secrets/secret.ts';
import type { Timeline } from '../server/timeline/timeline-entry.ts';
import { type EarlierAttempt, earlierOf, type RunJournals, shownTimeline } from './run-journals.ts';

/** Journals in NATS: any node of the cluster can resume a run from them. */
export class ClusterJournals implements RunJournals {
  readonly #queue: NatsQueue;
  readonly #journals: NatsJournals;
  readonly #key: Secret | null;
  /** Journals read for a claim, until its guest starts. */
  readonly #read = new WeakMap<Claim, Uint8Array>();

  constructor(queue: NatsQueue, key: Secret | null) {
    this.#queue = queue;
    this.#journals = new NatsJournals(queue.parts);
    this.#key = key;
  }

  option(claim: Claim, mode: JournalMode): JournalOption {
    const { namespace, id } = claim.run;
    const bytes = this.#read.get(claim) ?? null;
    this.#read.delete(claim);
    const place = this.#place(claim, bytes);
    return { file: journalSubject(namespace, id), place, mode, key: this.#key?.reveal() ?? null };
  }

  async earlier(claim: Claim): Promise<EarlierAttempt | null> {
    const { namespace, id } = claim.run;
    const owned = this.#queue.owned(claim);
    // Appends of an earlier guest on this node must be visible.
    await owned?.settled();
    const bytes = owned?.hasBlocks === false ? null : await this.#journals.read(namespace, id);
    if (bytes === null) return null;
    this.#read.set(claim, bytes);
    return earlierOf(id, journalSubject(namespace, id), this.#key, bytes);
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

  /** `bytes`: the journal as read before. */
  #place(claim: Claim, bytes: Uint8Array | null): JournalStorage {
    return {
      bytes,
      writer: (options, end) => {
        const owned = this.#queue.owned(claim);
        if (owned === null) throw new Error(`the run ${claim.run.id} is not claimed by this node`);
        return new SubjectJournal(owned, options, end);
      },
    };
  }
}
