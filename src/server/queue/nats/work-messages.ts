import { createInbox, type Msg, type NatsConnection, nanos } from '@nats-io/transport-node';
import { isJsonObject, parseJson } from '../../../base/json.ts';
import { isFull, patiently } from './nats-errors.ts';
import type { NatsParts } from './nats-parts.ts';
import { isEntryOf, type RunEntry } from './run-entries.ts';
import type { RunMirror } from './run-mirror.ts';
import { parseWork, placeOf, streams, workSubject } from './streams.ts';

/** A pull waits so long for a run. */
const PULL_MS = 10_000;
/** After it the server has ended the pull, whatever was lost on the way. */
const PULL_GRACE_MS = 2_000;
/** A run that was delivered and that nobody takes goes back. */
const UNTAKEN_MS = 500;
const REFUSED_MS = 100;
const TIME_IS_UP = 408;

/** The message of a run that this node was given. */
export class Delivery {
  readonly namespace: string;
  readonly pool: string;
  readonly run: string;
  /** When it came, on the clock that only goes forward. */
  readonly at = performance.now();
  /** How often it was delivered, this time included. */
  readonly times: number;
  /** Its entry as it was submitted; null: it is to be read. */
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
    this.times = placeOf(reply).times || 1;
    this.submitted = this.times === 1 ? submittedIn(data, names.run) : null;
    this.namespace = names.namespace;
    this.pool = names.pool;
    this.run = names.run;
  }

  /** Nobody needs it any more. Where that is lost on the way, the next one who is given it finds that out. */
  done(): void {
    if (!this.#nc.isClosed()) this.#nc.publish(this.#reply, '+ACK');
  }

  /** The server has confirmed it. */
  async acknowledge(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '+ACK', { timeout });
  }

  async working(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '+WPI', { timeout });
  }

  /** Nobody is to have it any more. */
  async terminate(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '+TERM', { timeout });
  }

  /** It is the next one that the server gives out. */
  async giveBackFirst(timeout: number): Promise<void> {
    await this.#nc.request(this.#reply, '-NAK', { timeout });
  }

  giveBack(delayMs = 0): void {
    if (this.#nc.isClosed()) return;
    const delay = delayMs === 0 ? '' : ` ${JSON.stringify({ delay: nanos(delayMs) })}`;
    this.#nc.publish(this.#reply, `-NAK${delay}`);
  }
}

/** What the submitter of a run sent with it. */
function submittedIn(data: Uint8Array, run: string): RunEntry | null {
  const value = parseJson(new TextDecoder().decode(data));
  const entry: unknown = isJsonObject(value) ? value.entry : null;
  return isEntryOf(run, entry) ? (entry as RunEntry) : null;
}

/** Pulls as many runs of one pool as were wanted, and keeps them until they are taken. */
export class Deliveries {
  readonly #nc: NatsConnection;
  readonly #subject: string;
  readonly #arrived: () => void;
  readonly #inbox: string;
  readonly #waiting: { readonly delivery: Delivery; readonly timer: NodeJS.Timeout }[] = [];
  #underway = 0;
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

  /** What is here, up to `max`; the rest is pulled for the next time. */
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
      delivery.giveBack();
    }
  }

  /** One pull at a time: another one begins when it has ended. */
  #pull(): void {
    if (!this.#isOpen || this.#pullEnds !== null || this.#wanted <= 0) return;
    this.#underway = this.#wanted;
    const request = JSON.stringify({ batch: this.#underway, expires: nanos(PULL_MS) });
    this.#nc.publish(this.#subject, request, { reply: this.#inbox });
    this.#pullEnds = setTimeout(() => this.#ended(), PULL_MS + PULL_GRACE_MS).unref();
  }

  /** The server forgets a pull with the connection that it came over. */
  async #pullAfterLoss(): Promise<void> {
    for await (const { type } of this.#nc.status()) if (type === 'reconnect') this.#ended();
  }

  #ended(): void {
    if (this.#pullEnds !== null) clearTimeout(this.#pullEnds);
    this.#pullEnds = null;
    this.#pull();
  }

  /** The pull is over, for whatever reason. One that was refused is not repeated at once: its consumer has no leader. */
  #over(code: number): void {
    if (this.#pullEnds === null) return;
    if (code === TIME_IS_UP) {
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
      delivery.giveBack();
      return;
    }
    const back = () => {
      const at = this.#waiting.findIndex((one) => one.delivery === delivery);
      if (at >= 0) this.#waiting.splice(at, 1);
      delivery.giveBack();
    };
    this.#waiting.push({ delivery, timer: setTimeout(back, UNTAKEN_MS) });
    this.#wanted = Math.max(0, this.#wanted - 1);
    if (--this.#underway <= 0) this.#ended();
    this.#arrived();
  }
}

/** A run whose submission was cut off between entry and message is published by whoever notices. */
const SWEEP_MS = 60_000;
const SWEEP_AT_ONCE = 1_000;
const ANSWER_MS = 5_000;

/** The messages by which runs wait: one for each that waits or runs. */
export class WorkMessages {
  readonly #parts: NatsParts;
  readonly #mirror: RunMirror;
  readonly #sweep: NodeJS.Timeout;

  constructor(parts: NatsParts, mirror: RunMirror) {
    this.#parts = parts;
    this.#mirror = mirror;
    this.#sweep = setInterval(() => void this.#publishLost().catch(() => {}), SWEEP_MS).unref();
  }

  /** `there`: it waits already. `entry`: of a new run, so that whoever takes it need not ask for it. */
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
      await patiently(patienceMs, () => js.publish(subject, message, options));
      return 'published';
    } catch (error) {
      if (!isFull(error)) throw error;
      return /per subject/.test(error.message) ? 'there' : 'full';
    }
  }

  close(): void {
    clearInterval(this.#sweep);
  }

  async #publishLost(): Promise<void> {
    const info = await this.#parts.jsm.streams.info(streams.runs);
    if (info.state.messages >= this.#mirror.underway) return;
    const old = this.#mirror.waitingSince(Date.now() - SWEEP_MS).slice(0, SWEEP_AT_ONCE);
    for (const { namespace, pool, id } of old) await this.publish(namespace, pool, id);
  }
}
