import { setTimeout as delay } from 'node:timers/promises';
import { AckPolicy, type ConsumerConfig, DeliverPolicy, type JetStreamManager } from '@nats-io/jetstream';
import { createInbox, type Msg, type NatsConnection, nanos, type Subscription } from '@nats-io/transport-node';
import { placeOf, RUNS_BUCKET } from './streams.ts';

const STREAM = `KV_${RUNS_BUCKET}`;
const SUBJECTS = `$KV.${RUNS_BUCKET}.`;
const OPERATION = 'KV-Operation';
const REMOVED_BY_SERVER = 'Nats-Marker-Reason';
const LAST_DELIVERED = 'Nats-Last-Consumer';
const STALLED = 'Nats-Consumer-Stalled';

/** The server says so often that it is there, and is taken for gone after a few times that it did not. */
const HEARTBEAT_MS = 1_000;
const SILENCE_MS = 3_500;
/** What nobody reads any more is removed by the server after this. */
const FORGOTTEN_MS = 30_000;
const PAUSE_MS = 200;

/** What has become of an entry: its text, or null where it was removed. */
export interface EntryNews {
  readonly id: string;
  readonly revision: number;
  readonly text: string | null;
}

/**
 * Tells of every entry there is, and then of every change, in their order and each once. The watch of the library does
 * the same, but may take more than a minute to notice that the server is gone which had its consumer.
 */
export class EntryFeed {
  readonly #nc: NatsConnection;
  readonly #jsm: JetStreamManager;
  readonly #tell: (news: EntryNews) => void;
  readonly #ready = Promise.withResolvers<void>();
  readonly #silence: NodeJS.Timeout;
  #subscription: Subscription | null = null;
  #consumer: string | null = null;
  /** Of this consumer. */
  #delivered = 0;
  /** The last one that was told. */
  #revision = 0;
  /** The last one that there was at the beginning, by the leader: what tells of them may be a copy that is behind. */
  #wanted = Number.POSITIVE_INFINITY;
  #isOpen = true;
  #isOpening = false;
  #wantsAnother = false;

  constructor(nc: NatsConnection, jsm: JetStreamManager, tell: (news: EntryNews) => void) {
    this.#nc = nc;
    this.#jsm = jsm;
    this.#tell = tell;
    this.#silence = setTimeout(() => this.#again(), SILENCE_MS).unref();
    void this.#readAnew();
    void this.#askForLast();
    this.#again();
  }

  /** Resolves when everything that was there has been told. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  stop(): void {
    this.#isOpen = false;
    clearTimeout(this.#silence);
    this.#leave();
  }

  async #askForLast(): Promise<void> {
    for (;;) {
      try {
        const last = await this.#jsm.streams.getMessage(STREAM, { last_by_subj: `${SUBJECTS}>` });
        this.#wanted = last?.seq ?? 0;
        this.#told();
        return;
      } catch {
        if (!this.#isOpen || this.#nc.isClosed()) return;
        await delay(PAUSE_MS, undefined, { ref: false });
      }
    }
  }

  #told(): void {
    if (this.#consumer !== null && this.#revision >= this.#wanted) this.#ready.resolve();
  }

  /** What a server sent to a connection that is gone has not come. */
  async #readAnew(): Promise<void> {
    for await (const { type } of this.#nc.status()) if (type === 'reconnect') this.#again();
  }

  /** Goes on after the last one that was told, with another consumer. */
  #again(): void {
    this.#wantsAnother = true;
    if (!this.#isOpening) void this.#open();
  }

  async #open(): Promise<void> {
    this.#isOpening = true;
    while (this.#isOpen && this.#wantsAnother && !this.#nc.isClosed()) {
      this.#wantsAnother = false;
      this.#leave();
      this.#delivered = 0;
      const inbox = createInbox();
      const callback = (error: Error | null, message: Msg) => void (error === null && this.#receive(inbox, message));
      this.#subscription = this.#nc.subscribe(inbox, { callback });
      try {
        this.#consumer = (await this.#jsm.consumers.add(STREAM, this.#config(inbox))).name;
        if (this.#isOpen) this.#silence.refresh();
        else this.#leave();
        this.#told();
      } catch {
        // No leader, no connection: there will be one.
        await delay(PAUSE_MS, undefined, { ref: false });
        this.#wantsAnother = true;
      }
    }
    this.#isOpening = false;
  }

  #config(inbox: string): Partial<ConsumerConfig> {
    const from =
      this.#revision === 0
        ? { deliver_policy: DeliverPolicy.LastPerSubject }
        : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: this.#revision + 1 };
    return {
      ...from,
      deliver_subject: inbox,
      filter_subject: `${SUBJECTS}>`,
      ack_policy: AckPolicy.None,
      max_deliver: 1,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: nanos(FORGOTTEN_MS),
      idle_heartbeat: nanos(HEARTBEAT_MS),
      flow_control: true,
    };
  }

  #leave(): void {
    this.#subscription?.unsubscribe();
    this.#subscription = null;
    if (this.#consumer !== null && !this.#nc.isClosed()) {
      this.#jsm.consumers.delete(STREAM, this.#consumer).catch(() => {});
    }
    this.#consumer = null;
  }

  #receive(inbox: string, message: Msg): void {
    if (this.#subscription?.getSubject() !== inbox) return;
    this.#silence.refresh();
    if (message.subject.startsWith(SUBJECTS)) this.#take(message);
    else this.#answer(message);
  }

  #take(message: Msg): void {
    const { sequence: revision, delivered } = placeOf(message.reply ?? '');
    if (delivered !== this.#delivered + 1) {
      this.#again();
      return;
    }
    this.#delivered = delivered;
    this.#revision = revision;
    const { headers } = message;
    const isRemoved = headers !== undefined && (headers.has(OPERATION) || headers.has(REMOVED_BY_SERVER));
    this.#tell({
      id: message.subject.slice(SUBJECTS.length),
      revision,
      text: isRemoved ? null : message.string(),
    });
    this.#told();
  }

  /** A heartbeat, or the question whether what was sent has come. */
  #answer(message: Msg): void {
    const { headers } = message;
    const sent = headers?.get(LAST_DELIVERED);
    if (sent !== undefined && sent !== '' && Number(sent) > this.#delivered) {
      this.#again();
      return;
    }
    // Silence: the last one was removed before it could be told.
    if (sent !== undefined && sent !== '') this.#ready.resolve();
    const stalled = headers?.get(STALLED);
    if (stalled !== undefined && stalled !== '') this.#nc.publish(stalled);
    else if (message.reply !== undefined && message.reply !== '') message.respond();
  }
}
