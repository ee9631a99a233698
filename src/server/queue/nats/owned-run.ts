import { setTimeout as delay } from 'node:timers/promises';
import { nuid } from '@nats-io/transport-node';
import { errorText } from '../../../base/errors.ts';
import type { RunRecord } from '../../records/run.ts';
import { isTransient, isWrongSequence } from './nats-errors.ts';
import { type JournalMessage, lastMessage, type MessageKind, toHeaders } from './nats-journals.ts';
import type { NatsParts } from './nats-parts.ts';
import type { RunEntry } from './run-entries.ts';
import { journalSubject } from './streams.ts';
import type { Delivery } from './work-messages.ts';

/** Larger payloads are stored as objects. */
const MAX_MESSAGE_BYTES = 512 * 1024;
const ANSWER_MS = 5_000;
const PAUSE_MS = 100;
/** An effect may start only if at least this share of the lease remains. */
const MIN_LEASE_PART = 0.1;

/** A delivered run. */
export interface DeliveredRun {
  readonly delivery: Delivery;
  readonly entry: RunEntry;
  /** Last message of its journal; null: none. */
  readonly last: JournalMessage | null;
}

/** Attempt, node and time of the start of a run. */
export type RunStart = Pick<RunRecord, 'attempts' | 'node' | 'started_at_ms'>;

export interface OwnedRunParts extends NatsParts {
  readonly leaseMs: number;
}

/**
 * A run claimed by this node: its work message, its lease, and the position in its journal.
 *
 * Invariants
 * - Every journal message names the sequence of the message before it, and the server rejects a message whose expected
 *   sequence is outdated. That sequence is the fencing token: a node that lost the run cannot append and loses ownership.
 * - Appends are sequential. An append whose response was lost is recognized by claim token and ordinal.
 * - An effect starts only after {@link mayAct}: the lease has time left, or was renewed and ownership was verified.
 *
 * `lost` aborts once, when another node owns the run or NATS was unreachable for longer than `patienceMs`.
 */
export class OwnedRun {
  readonly token = nuid.next();
  readonly delivery: Delivery;
  readonly subject: string;
  /** Objects of journal messages written here. */
  readonly objects: string[] = [];
  readonly #parts: OwnedRunParts;
  readonly #lost = new AbortController();
  #last: number;
  #ordinal = 0;
  #leaseEnds: number;
  #appending: Promise<unknown> = Promise.resolve();
  attempt: number;
  /** Last known entry. */
  entry: RunEntry;
  /** Whether the journal may have blocks. */
  hasBlocks: boolean;
  readonly begun: RunStart;
  /** Pending write of the status `running`; null: the entry has it. */
  mark: RunningMark | null = null;

  constructor({ delivery, entry, last, node }: DeliveredRun & { readonly node: string }, parts: OwnedRunParts) {
    this.delivery = delivery;
    this.entry = entry;
    this.hasBlocks = last !== null;
    this.subject = journalSubject(delivery.namespace, delivery.run);
    this.#parts = parts;
    this.#last = last?.seq ?? 0;
    this.attempt = (last?.attempt ?? 0) + 1;
    this.#leaseEnds = delivery.at + parts.leaseMs;
    this.begun = { attempts: this.attempt, node, started_at_ms: Date.now() };
  }

  /** Aborts when another node owns the run, or ownership cannot be verified. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  get lastSeq(): number {
    return this.#last;
  }

  lose(why: string): void {
    this.#lost.abort(why);
  }

  /** Appends one message to the journal. False: not written, and the run is lost. */
  append(kind: MessageKind, payload: Uint8Array | string): Promise<boolean> {
    const append = this.#appending.then(() => this.#append(kind, payload));
    this.#appending = append;
    return append;
  }

  /** Resolves when all lines of the journal writer were appended. Set by the journal writer. */
  journalSent: () => Promise<void> = () => Promise.resolve();

  /** Resolves when all appends are written, or the run is lost. */
  async settled(): Promise<void> {
    await this.journalSent();
    await this.#appending;
  }

  /** Extends the lease. @throws Error if the server does not respond */
  async renew(): Promise<void> {
    const sent = performance.now();
    await this.delivery.working(ANSWER_MS);
    this.#leaseEnds = sent + this.#parts.leaseMs;
  }

  /** Ensures that the entry has the status `running`. False: the run was ended elsewhere, and is lost. */
  async isMarked(): Promise<boolean> {
    if (this.mark === null) return true;
    const isWritten = await this.mark.written();
    if (isWritten) this.mark = null;
    return isWritten;
  }

  /** Whether an effect may start. An expiring lease is renewed first, and ownership verified. */
  async mayAct(): Promise<boolean> {
    if (!(await this.isMarked())) return false;
    while (!this.lost.aborted && !this.#hasTime()) {
      try {
        await this.renew();
        if (!(await this.isLast())) this.lose('another node has claimed the run');
      } catch (error) {
        if (!isTransient(error)) throw error;
        if (performance.now() > this.#leaseEnds + this.#parts.patienceMs) this.lose(unreachable(error));
        else await delay(PAUSE_MS);
      }
    }
    return !this.lost.aborted;
  }

  /** Whether this claim wrote the last message of the journal. */
  async isLast(): Promise<boolean> {
    return (await lastMessage(this.#parts.jsm, this.subject))?.claim === this.token;
  }

  #hasTime(): boolean {
    const { leaseMs } = this.#parts;
    return this.#leaseEnds - performance.now() > leaseMs * MIN_LEASE_PART;
  }

  async #append(kind: MessageKind, payload: Uint8Array | string): Promise<boolean> {
    if (this.lost.aborted) return false;
    if (kind === 'block') this.hasBlocks = true;
    const { js, bodies, patienceMs } = this.#parts;
    const ordinal = ++this.#ordinal;
    const until = performance.now() + patienceMs;
    const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
    for (;;) {
      try {
        const object =
          bytes.byteLength > MAX_MESSAGE_BYTES
            ? await bodies.put(`${this.delivery.run}/${this.token}.${ordinal}`, bytes)
            : null;
        const mark = toHeaders({ kind, claim: this.token, ordinal, attempt: this.attempt, object });
        const options = { headers: mark, expect: { lastSubjectSequence: this.#last }, timeout: ANSWER_MS, retries: 0 };
        const { seq } = await js.publish(this.subject, object === null ? bytes : '', options);
        if (object !== null) this.objects.push(object);
        this.#last = seq;
        return true;
      } catch (error) {
        if (isWrongSequence(error)) return this.#resolveConflict(ordinal, until);
        if (isTransient(error) && !this.lost.aborted && performance.now() < until) await delay(PAUSE_MS);
        else return this.#fail(unreachable(error));
      }
    }
  }

  /** The last message is either this one, whose response was lost, or that of another node, which owns the run now. */
  async #resolveConflict(ordinal: number, until: number): Promise<boolean> {
    for (;;) {
      try {
        const last = await lastMessage(this.#parts.jsm, this.subject);
        if (last?.claim !== this.token || last.ordinal !== ordinal)
          return this.#fail('another node has claimed the run');
        if (last.object !== null) this.objects.push(last.object);
        this.#last = last.seq;
        return true;
      } catch (error) {
        if (!isTransient(error) || performance.now() > until) return this.#fail(unreachable(error));
        await delay(PAUSE_MS);
      }
    }
  }

  #fail(why: string): false {
    this.lose(why);
    return false;
  }
}

export const unreachable = (error: unknown) => `NATS did not accept the journal of the run: ${errorText(error)}`;

/** The status `running` is written after this delay: a run that ends sooner saves a write and a message to every node. */
const RUNNING_DELAY_MS = 100;

/** Writes the status `running` once: after a delay, or as soon as it is needed. */
export class RunningMark {
  readonly #write: () => Promise<boolean>;
  readonly #decided: () => void;
  readonly #timer: NodeJS.Timeout;
  #written: Promise<boolean> | null = null;

  /** `write` resolves to false if the run was ended elsewhere. `decided` is called when the status is written or skipped. */
  constructor(write: () => Promise<boolean>, decided: () => void) {
    this.#write = write;
    this.#decided = decided;
    this.#timer = setTimeout(() => void this.written(), RUNNING_DELAY_MS).unref();
  }

  /** False: the run was ended elsewhere, and must have no further effects. */
  written(): Promise<boolean> {
    return this.#decide(this.#write);
  }

  /** Skips the write, because the final status follows. False as with {@link written}. */
  skip(): Promise<boolean> {
    return this.#decide(async () => true);
  }

  #decide(how: () => Promise<boolean>): Promise<boolean> {
    if (this.#written === null) {
      clearTimeout(this.#timer);
      this.#decided();
      this.#written = how();
    }
    return this.#written;
  }
}
