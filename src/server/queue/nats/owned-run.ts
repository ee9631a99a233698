import { setTimeout as delay } from 'node:timers/promises';
import { nuid } from '@nats-io/transport-node';
import { errorText } from '../../../base/error-text.ts';
import type { RunRecord } from '../../records/run.ts';
import { isTransient, isWrongSequence } from './nats-errors.ts';
import { type JournalMessage, lastMessage, type MessageKind, toHeaders } from './nats-journals.ts';
import type { NatsParts } from './nats-parts.ts';
import type { RunEntry } from './run-entries.ts';
import { journalSubject } from './streams.ts';
import type { Delivery } from './work-messages.ts';

/** What is larger is an object. */
const MAX_MESSAGE_BYTES = 512 * 1024;
const ANSWER_MS = 5_000;
const PAUSE_MS = 100;
/** Before an effect leaves, at least this part of the lease is left. */
const MIN_LEASE_PART = 0.1;

/** A run that was delivered, and the end of its journal; null: it has none. */
export interface FoundRun {
  readonly delivery: Delivery;
  readonly entry: RunEntry;
  readonly last: JournalMessage | null;
}

/** Who began a run, and when. */
export type Begun = Pick<RunRecord, 'attempts' | 'node' | 'started_at_ms'>;

export interface OwnedRunParts extends NatsParts {
  readonly leaseMs: number;
}

/**
 * A run while it is this node's: its message, its lease, and the place in its journal where the next message goes. The
 * server takes that one only if nobody else has written since, so whoever was replaced finds out and stops.
 */
export class OwnedRun {
  readonly token = nuid.next();
  readonly delivery: Delivery;
  readonly subject: string;
  readonly objects: string[] = [];
  readonly #parts: OwnedRunParts;
  readonly #lost = new AbortController();
  #last: number;
  #ordinal = 0;
  #leaseEnds: number;
  #appending: Promise<unknown> = Promise.resolve();
  attempt: number;
  /** As this node has last seen it. */
  entry: RunEntry;
  /** Whether its journal may have blocks. */
  hasBlocks: boolean;
  /** What its entry says of it while it runs here. */
  readonly begun: Begun;
  /** Null: the entry says so already. */
  mark: RunningMark | null = null;

  constructor({ delivery, entry, last, node }: FoundRun & { readonly node: string }, parts: OwnedRunParts) {
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

  /** Aborted when it is somebody else's, or nobody can be asked whose it is. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  get lastSeq(): number {
    return this.#last;
  }

  lose(why: string): void {
    this.#lost.abort(why);
  }

  /** One message, after those before it. False: it was not written, and the run is lost. */
  append(kind: MessageKind, payload: Uint8Array | string): Promise<boolean> {
    const append = this.#appending.then(() => this.#append(kind, payload));
    this.#appending = append;
    return append;
  }

  /** Resolves when the lines of its journal were appended. */
  journaled: () => Promise<void> = () => Promise.resolve();

  /** What was appended so far is written, or the run is lost. */
  async settled(): Promise<void> {
    await this.journaled();
    await this.#appending;
  }

  /** The server gives it to nobody else for the time of a lease. @throws where it does not answer */
  async renew(): Promise<void> {
    const sent = performance.now();
    await this.delivery.working(ANSWER_MS);
    this.#leaseEnds = sent + this.#parts.leaseMs;
  }

  /** Whether everybody can know that it runs here. False: somebody has ended it, and it is lost. */
  async isMarked(): Promise<boolean> {
    if (this.mark === null) return true;
    const isWritten = await this.mark.written();
    if (isWritten) this.mark = null;
    return isWritten;
  }

  /** Whether it is this node's for long enough to let an effect out. A lease that has ended is renewed, and proved. */
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

  /** Whether nobody has written to its journal since. */
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
        if (isWrongSequence(error)) return this.#refused(ordinal, until);
        if (isTransient(error) && !this.lost.aborted && performance.now() < until) await delay(PAUSE_MS);
        else return this.#give(unreachable(error));
      }
    }
  }

  /** Mine: its acknowledgement was lost. Not mine: somebody has taken the run. */
  async #refused(ordinal: number, until: number): Promise<boolean> {
    for (;;) {
      try {
        const last = await lastMessage(this.#parts.jsm, this.subject);
        if (last?.claim !== this.token || last.ordinal !== ordinal)
          return this.#give('another node has claimed the run');
        if (last.object !== null) this.objects.push(last.object);
        this.#last = last.seq;
        return true;
      } catch (error) {
        if (!isTransient(error) || performance.now() > until) return this.#give(unreachable(error));
        await delay(PAUSE_MS);
      }
    }
  }

  #give(why: string): false {
    this.lose(why);
    return false;
  }
}

export const unreachable = (error: unknown) => `NATS did not accept the journal of the run: ${errorText(error)}`;

/** Most runs that end this soon are never seen running by anybody: their end tells it all. */
const SOON_MS = 100;

/**
 * Tells everybody that a run runs here: soon, or as soon as something needs it, and once. Every node hears of it, so a
 * run that is over before costs a write and a message to each of them less.
 */
export class RunningMark {
  readonly #write: () => Promise<boolean>;
  readonly #decided: () => void;
  readonly #timer: NodeJS.Timeout;
  #written: Promise<boolean> | null = null;

  /** `write` gives false where the run was ended by somebody; `decided`: it is written now, or never. */
  constructor(write: () => Promise<boolean>, decided: () => void) {
    this.#write = write;
    this.#decided = decided;
    this.#timer = setTimeout(() => void this.written(), SOON_MS).unref();
  }

  /** False: somebody has ended the run, and nothing of it may leave. */
  written(): Promise<boolean> {
    return this.#decide(this.#write);
  }

  /** The end is about to be written, and says it too. False as with {@link written}. */
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
