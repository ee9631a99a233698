import type { JetStreamManager, StoredMsg } from '@nats-io/jetstream';
import { headers, type MsgHdrs } from '@nats-io/transport-node';
import { QueueError } from '../run-queue.ts';
import { retryTransient } from './nats-errors.ts';
import type { Bodies, NatsParts } from './nats-parts.ts';
import { journalSubject, streams } from './streams.ts';

/** Journals of runs in NATS: a journal is the concatenation of the blocks on the subject of its run. */
export class NatsJournals {
  readonly #parts: NatsParts;

  constructor(parts: NatsParts) {
    this.#parts = parts;
  }

  /** Null: the run has no journal yet. */
  async read(namespace: string, run: string): Promise<Uint8Array | null> {
    const bytes = await blocksOf(await this.#messages(namespace, run), this.#parts.bodies);
    return bytes.byteLength === 0 ? null : bytes;
  }

  async remove(namespace: string, run: string): Promise<void> {
    const { jsm, bodies, patienceMs } = this.#parts;
    await bodies.remove(objectsOf(await this.#messages(namespace, run)));
    const filter = journalSubject(namespace, run);
    await retryTransient(patienceMs, () => jsm.streams.purge(streams.journals, { filter }));
  }

  async #messages(namespace: string, run: string): Promise<JournalMessage[]> {
    const { jsm, patienceMs } = this.#parts;
    const subject = journalSubject(namespace, run);
    const last = await retryTransient(patienceMs, () => lastMessage(jsm, subject));
    return last === null ? [] : readMessages(jsm, subject, last.seq, patienceMs);
  }
}

/**
 * Messages on the journal subject of a run. `block` holds blocks of the journal. The others record ownership: `claim` by
 * a node, `released` to the queue, `parked`, and `finished` with the outcome.
 */
export type MessageKind = 'block' | 'claim' | 'released' | 'parked' | 'finished';

/** Writer of a message and its position among the writer's messages. */
export interface MessageMark {
  readonly kind: MessageKind;
  readonly claim: string;
  readonly ordinal: number;
  /** Number of counted attempts so far. */
  readonly attempt: number;
  /** Object with a payload that is too large for a message; null: the payload is in the message. */
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

/** A forged number must not be stored with the run: NaN would make the entry invalid. */
function attemptsOf(text: string): number {
  const attempts = Number(text);
  return Number.isSafeInteger(attempts) && attempts >= 0 ? attempts : 0;
}

/** Last message on the subject, read from the leader; null: none. */
export async function lastMessage(jsm: JetStreamManager, subject: string): Promise<JournalMessage | null> {
  const found = await jsm.streams.getMessage(streams.journals, { last_by_subj: subject });
  return found === null ? null : toMessage(found);
}

/** Messages up to the sequence `until`, from any replica. @throws QueueError if no replica has them in time */
export function readMessages(
  jsm: JetStreamManager,
  subject: string,
  until: number,
  patienceMs: number,
): Promise<JournalMessage[]> {
  return retryTransient(patienceMs, async () => {
    const found: JournalMessage[] = [];
    let from = 1;
    for (;;) {
      const page = await jsm.direct.getBatch(streams.journals, { seq: from, next_by_subj: subject, batch: BATCH });
      const before = found.length;
      for await (const message of page) if (message.seq <= until) found.push(toMessage(message));
      const last = found.at(-1)?.seq ?? 0;
      if (last === until) return found;
      // The replica lags; a retry may reach another one.
      if (found.length === before) throw new Error(`a replica of ${streams.journals} lags: it has ${last} of ${until}`);
      from = last + 1;
    }
  });
}

/** The bytes of the journal. */
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
