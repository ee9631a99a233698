import { blocksOf, type JournalMessage, lastMessage, objectsOf, readMessages } from './journal-messages.ts';
import type { NatsParts } from './nats-parts.ts';
import { patiently } from './patience.ts';
import { journalSubject, streams } from './subjects.ts';

/** The journals of a cluster's runs: each is what the blocks on its subject are, one after the other. */
export class NatsJournals {
  readonly #parts: NatsParts;

  constructor(parts: NatsParts) {
    this.#parts = parts;
  }

  /** Null: it has none yet. */
  async read(namespace: string, run: string): Promise<Uint8Array | null> {
    const bytes = await blocksOf(await this.#messages(namespace, run), this.#parts.bodies);
    return bytes.byteLength === 0 ? null : bytes;
  }

  async remove(namespace: string, run: string): Promise<void> {
    const { jsm, bodies, patienceMs } = this.#parts;
    await bodies.remove(objectsOf(await this.#messages(namespace, run)));
    const filter = journalSubject(namespace, run);
    await patiently(patienceMs, () => jsm.streams.purge(streams.journals, { filter }));
  }

  async #messages(namespace: string, run: string): Promise<JournalMessage[]> {
    const { jsm, patienceMs } = this.#parts;
    const subject = journalSubject(namespace, run);
    const last = await patiently(patienceMs, () => lastMessage(jsm, subject));
    return last === null ? [] : readMessages(jsm, subject, last.seq, patienceMs);
  }
}
