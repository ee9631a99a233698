import { createInbox, type Msg, type NatsConnection, nanos } from '@nats-io/transport-node';
import { isJsonObject, parseJson } from '../../../base/json.ts';
import { isFull, retryTransient } from './nats-errors.ts';
import type { NatsParts } from './nats-parts.ts';
import { isEntryOf, type RunEntry } from './run-entries.ts';
import type { RunMirror } from './run-mirror.ts';
import { deliveryMetadata, parseWork, streams, workSubject } from './streams.ts';

/*
 * Work messages: one per queued or running run, in a work-queue stream. A node pulls as many as it has free slots, and
 * holds the message of a run while it runs the run; the ack deadline of the consumer is the lease.
 */

/** How long a pull waits for a run. */
const PULL_MS = 10_000;
/** After this the server has certainly ended the pull, even if its response was lost. */
const PULL_GRACE_MS = 2_000;
/** A delivered message that is not claimed within this time returns to the queue. */
const UNCLAIMED_MS = 500;
const REFUSED_MS = 100;
const REQUEST_TIMEOUT = 408;

/** The work message of a run, delivered to this node. */
export class Delivery {
  readonly namespace: string;
  readonly pool: string;
  readonly run: string;
  /** Arrival on the monotonic clock. */
  readonly at = performance.now();
  /** Delivery count, this delivery included. */
  readonly times: number;
  /** The entry as submitted; null: read the entry. */
  readonly submitted: RunEntry | null;
  readonly #nc: NatsConnection;
  readonly #reply: string;

  constructor(
    nc: NatsConnection,
    { reply, data }: { readonly reply: string; readonly data: Uint8Array },
    names: { readonly namespace: string; readonly pool: string; readonly run: string },
  ) {
    this.#nc = nc;
    this.#reply = reply;
    this.times = deliveryMetadata(reply).times || 1;
    this.submitted = this.times === 1 ? submittedIn(data, names.run) : null;
    this.namespace = names.namespace;
    this.pool = names.pool;
    this.run = names.run;
  }

  /** Acknowledges without waiting. If the acknowledgement is lost, the next node that gets the message repeats it. */
  done(): void {
    if (!this.#nc.isClosed()) this.#nc.publish(this.#reply, '+ACK');
  }

  /** Resolves when the server has confirmed the acknowledgement. */
  async acknowledge(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '+ACK', { timeout });
  }

  /** Extends the lease. */
  async working(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '+WPI', { timeout });
  }

  /** Ends deliveries of the message. */
  async terminate(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '+TERM', { timeout });
  }

  /** Returns the message to the head of the queue. */
  async returnFirst(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '-NAK', { timeout });
  }

  return(delayMs = 0): void {
    if (this.#nc.isClosed()) return;
    const delay = delayMs === 0 ? '' : ` ${JSON.stringify({ delay: nanos(delayMs) })}`;
    this.#nc.publish(this.#reply, `-NAK${delay}`);
  }
}

/** The entry in the message of a new run. */
function submittedIn(data: Uint8Array, run: string): RunEntry | null {
  const value = parseJson(new TextDecoder().decode(data));
  const entry: unknown = isJsonObject(value) ? value.entry : null;
  return isEntryOf(run, entry) ? (entry as RunEntry) : null;
}

/** Pulls work messages of one pool, as many as requested, and holds them until they are taken. */
export class Deliveries {
  readonly #nc: NatsConnection;
  readonly #subject: string;
  readonly #arrived: () => void;
  readonly #inbox: string;
  readonly #waiting: { readonly delivery: Delivery; readonly timer: NodeJS.Timeout }[] = [];
  /** Messages that the current pull may still deliver. */
  #outstanding = 0;
  #pullEnds: NodeJS.Timeout | null = null;
  #wanted = 0;
  #isOpen = true;

  constructor(nc: NatsConnection, consumer: string, arrived: () => void) {
    this.#nc = nc;
    this.#subject = `$JS.API.CONSUMER.MSG.NEXT.${streams.runs}.${consumer}`;
    this.#arrived = arrived;
    this.#inbox = createInbox();
    nc.subscribe(this.#inbox, { callback: (error, message) => void (error === null && this.#receive(message)) });
    void this.#pullAfterLoss();
  }

  /** Returns the messages that arrived, up to `max`, and pulls the difference for the next call. */
  take(max: number): Delivery[] {
    const taken = this.#waiting.splice(0, max);
    for (const { timer } of taken) clearTimeout(timer);
    this.#wanted = max - taken.length;
    this.#pull();
    return taken.map(({ delivery }) => delivery);
  }

  close(): void {
    this.#isOpen = false;
    if (this.#pullEnds !== null) clearTimeout(this.#pullEnds);
    for (const { delivery, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      delivery.return();
    }
  }

  /** One pull at a time. */
  #pull(): void {
    if (!this.#isOpen || this.#pullEnds !== null || this.#wanted <= 0) return;
    this.#outstanding = this.#wanted;
    const request = JSON.stringify({ batch: this.#outstanding, expires: nanos(PULL_MS) });
    this.#nc.publish(this.#subject, request, { reply: this.#inbox });
    this.#pullEnds = setTimeout(() => this.#ended(), PULL_MS + PULL_GRACE_MS).unref();
  }

  /** A pull ends with its connection. */
  async #pullAfterLoss(): Promise<void> {
    for await (const { type } of this.#nc.status()) if (type === 'reconnect') this.#ended();
  }

  #ended(): void {
    if (this.#pullEnds !== null) clearTimeout(this.#pullEnds);
    this.#pullEnds = null;
    this.#pull();
  }

  /** A rejected pull is repeated after a pause: its consumer has no leader. */
  #over(code: number): void {
    if (this.#pullEnds === null) return;
    if (code === REQUEST_TIMEOUT) {
      this.#ended();
      return;
    }
    clearTimeout(this.#pullEnds);
    this.#pullEnds = setTimeout(() => this.#ended(), REFUSED_MS).unref();
  }

  #receive(message: Msg): void {
    const code = message.headers?.code ?? 0;
    if (code > 0) {
      this.#over(code);
      return;
    }
    const names = parseWork(message.subject);
    if (names === null || message.reply === undefined) return;
    const delivery = new Delivery(this.#nc, { reply: message.reply, data: message.data }, names);
    if (!this.#isOpen) {
      delivery.return();
      return;
    }
    const unclaimed = () => {
      const at = this.#waiting.findIndex((one) => one.delivery === delivery);
      if (at >= 0) this.#waiting.splice(at, 1);
      delivery.return();
    };
    this.#waiting.push({ delivery, timer: setTimeout(unclaimed, UNCLAIMED_MS) });
    this.#wanted = Math.max(0, this.#wanted - 1);
    if (--this.#outstanding <= 0) this.#ended();
    this.#arrived();
  }
}

/** Interval of the search for runs whose submission was interrupted between entry and message. */
const SWEEP_MS = 60_000;
const SWEEP_AT_ONCE = 1_000;
const ANSWER_MS = 5_000;

/** Publishes work messages, also for runs whose submission was interrupted. */
export class WorkMessages {
  readonly #parts: NatsParts;
  readonly #mirror: RunMirror;
  readonly #sweep: NodeJS.Timeout;

  constructor(parts: NatsParts, mirror: RunMirror) {
    this.#parts = parts;
    this.#mirror = mirror;
    this.#sweep = setInterval(() => void this.#publishMissing().catch(() => {}), SWEEP_MS).unref();
  }

  /** `there`: the run has a work message already. `entry`: of a new run, so that the claiming node need not read it. */
  async publish(
    namespace: string,
    pool: string,
    id: string,
    entry: RunEntry | null = null,
  ): Promise<'published' | 'there' | 'full'> {
    const { js, patienceMs } = this.#parts;
    const subject = workSubject(namespace, pool, id);
    const message = JSON.stringify(entry === null ? { run: id } : { run: id, entry });
    const options = { timeout: ANSWER_MS, retries: 0 };
    try {
      await retryTransient(patienceMs, () => js.publish(subject, message, options));
      return 'published';
    } catch (error) {
      if (!isFull(error)) throw error;
      return /per subject/.test(error.message) ? 'there' : 'full';
    }
  }

  close(): void {
    clearInterval(this.#sweep);
  }

  async #publishMissing(): Promise<void> {
    const info = await this.#parts.jsm.streams.info(streams.runs);
    if (info.state.messages >= this.#mirror.active) return;
    const old = this.#mirror.queuedBefore(Date.now() - SWEEP_MS).slice(0, SWEEP_AT_ONCE);
    for (const { namespace, pool, id } of old) await this.publish(namespace, pool, id);
  }
}
