import type { JournalPlace } from '../../journal/journal-place.ts';
import type { Claim } from '../run-queue.ts';
import { blocksOf, type JournalMessage, lastMessage, objectsOf, readMessages } from './journal-messages.ts';
import { SubjectJournal } from './journal-writer.ts';
import type { NatsQueue } from './nats-queue.ts';
import { patiently } from './patience.ts';
import { journalSubject, streams } from './subjects.ts';

/** The journals of a cluster's runs: each is what the blocks on its subject are, one after the other. */
export class NatsJournals {
  readonly #queue: NatsQueue;

  constructor(queue: NatsQueue) {
    this.#queue = queue;
  }

  name(namespace: string, run: string): string {
    return journalSubject(namespace, run);
  }

  /** Null: it has none yet. */
  async read(namespace: string, run: string): Promise<Uint8Array | null> {
    const messages = await this.#messages(namespace, run);
    const bytes = await blocksOf(messages, this.#queue.parts.bodies);
    return bytes.byteLength === 0 ? null : bytes;
  }

  /** As it stands there for whoever has the run. Null: it has none yet. */
  async own(claim: Claim): Promise<Uint8Array | null> {
    const owned = this.#queue.owned(claim);
    await owned?.settled();
    if (owned?.hasBlocks === false) return null;
    return this.read(claim.run.namespace, claim.run.id);
  }

  /** For the guest of a claim; `bytes` is what was read before. */
  place(claim: Claim, bytes: Uint8Array | null): JournalPlace {
    return {
      bytes,
      writer: (options, end) => {
        const owned = this.#queue.owned(claim);
        if (owned === null) throw new Error(`the run ${claim.run.id} is not claimed here`);
        return new SubjectJournal(owned, options, end);
      },
    };
  }

  async remove(namespace: string, run: string): Promise<void> {
    const { jsm, bodies, patienceMs } = this.#queue.parts;
    await bodies.remove(objectsOf(await this.#messages(namespace, run)));
    const filter = this.name(namespace, run);
    await patiently(patienceMs, () => jsm.streams.purge(streams.journals, { filter }));
  }

  async #messages(namespace: string, run: string): Promise<JournalMessage[]> {
    const { jsm, patienceMs } = this.#queue.parts;
    const subject = this.name(namespace, run);
    const last = await patiently(patienceMs, () => lastMessage(jsm, subject));
    return last === null ? [] : readMessages(jsm, subject, last.seq, patienceMs);
  }
}
