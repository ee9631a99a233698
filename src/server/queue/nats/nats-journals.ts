import type { JetStreamManager, StoredMsg } from '@nats-io/jetstream';
import { headers, type MsgHdrs } from '@nats-io/transport-node';
import { QueueError } from '../run-queue.ts';
import { patiently } from './nats-errors.ts';
import type { Bodies, NatsParts } from './nats-parts.ts';
import { journalSubject, streams } from './streams.ts';

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

/**
 * What stands on the subject of a run's journal. `block`: blocks of the journal, which one after the other are the
 * journal. The others say whose it is: `claim` that a node takes it, `released` that it gave it back, `parked` that it
 * waits for something, `finished` how the run ended.
 */
export type MessageKind = 'block' | 'claim' | 'released' | 'parked' | 'finished';

/** Who wrote a message, and as which of his. */
export interface MessageMark {
  readonly kind: MessageKind;
  readonly claim: string;
  readonly ordinal: number;
  /** Attempts of the run that count so far. */
  readonly attempt: number;
  /** Where the payload is, if it is too large for a message; null: it is in it. */
  readonly object: string | null;
}

export interface JournalMessage extends MessageMark {
  readonly seq: number;
  readonly data: Uint8Array;
}

const names = {
  kind: 'Spear-Kind',
  claim: 'Spear-Claim',
  ordinal: 'Spear-Ordinal',
  attempt: 'Spear-Attempt',
  object: 'Spear-Object',
} as const;
const BATCH = 500;

export function toHeaders({ kind, claim, ordinal, attempt, object }: MessageMark): MsgHdrs {
  const made = headers();
  made.set(names.kind, kind);
  made.set(names.claim, claim);
  made.set(names.ordinal, String(ordinal));
  made.set(names.attempt, String(attempt));
  if (object !== null) made.set(names.object, object);
  return made;
}

function toMessage({ header, seq, data }: StoredMsg): JournalMessage {
  return {
    kind: header.get(names.kind) as MessageKind,
    claim: header.get(names.claim),
    ordinal: Number(header.get(names.ordinal)),
    attempt: attemptsOf(header.get(names.attempt)),
    object: header.get(names.object) || null,
    seq,
    data,
  };
}

/** A forged number would be stored with the run: NaN makes its entry no entry. */
function attemptsOf(text: string): number {
  const attempts = Number(text);
  return Number.isSafeInteger(attempts) && attempts >= 0 ? attempts : 0;
}

/** The last message of a journal, from the leader; null: there is none. */
export async function lastMessage(jsm: JetStreamManager, subject: string): Promise<JournalMessage | null> {
  const found = await jsm.streams.getMessage(streams.journals, { last_by_subj: subject });
  return found === null ? null : toMessage(found);
}

/** Its messages up to `until`, whichever copy they come from. @throws QueueError where no copy has them in time */
export function readMessages(
  jsm: JetStreamManager,
  subject: string,
  until: number,
  patienceMs: number,
): Promise<JournalMessage[]> {
  return patiently(patienceMs, async () => {
    const found: JournalMessage[] = [];
    let from = 1;
    for (;;) {
      const page = await jsm.direct.getBatch(streams.journals, { seq: from, next_by_subj: subject, batch: BATCH });
      const before = found.length;
      for await (const message of page) if (message.seq <= until) found.push(toMessage(message));
      const last = found.at(-1)?.seq ?? 0;
      if (last === until) return found;
      // That copy is behind; another try may find another one, or the same a little later.
      if (found.length === before) throw new Error(`a replica of ${streams.journals} lags: it has ${last} of ${until}`);
      from = last + 1;
    }
  });
}

/** The journal itself. */
export async function blocksOf(messages: readonly JournalMessage[], bodies: Bodies): Promise<Uint8Array> {
  const blocks = messages.filter(({ kind }) => kind === 'block');
  return Buffer.concat(
    await Promise.all(blocks.map(({ data, object }) => (object === null ? data : bodies.get(object)))),
  );
}

export const objectsOf = (messages: readonly JournalMessage[]): string[] =>
  messages.flatMap(({ object }) => (object === null ? [] : [object]));

/** @throws QueueError */
export function parsed<T>({ data }: JournalMessage): T {
  try {
    return JSON.parse(new TextDecoder().decode(data)) as T;
  } catch {
    throw new QueueError('not_stored', 'a journal message in NATS is corrupt');
  }
}
