import { setTimeout as delay } from 'node:timers/promises';
import { AckPolicy, type ConsumerConfig, DeliverPolicy, type JetStreamManager } from '@nats-io/jetstream';
import { createInbox, type Msg, type NatsConnection, nanos, type Subscription } from '@nats-io/transport-node';
import { deliveryMetadata, RUNS_BUCKET } from './streams.ts';

const STREAM = `KV_${RUNS_BUCKET}`;
const SUBJECTS = `$KV.${RUNS_BUCKET}.`;
const OPERATION = 'KV-Operation';
const REMOVED_BY_SERVER = 'Nats-Marker-Reason';
const LAST_DELIVERED = 'Nats-Last-Consumer';
const STALLED = 'Nats-Consumer-Stalled';

/** Interval of server heartbeats, and the silence after which the consumer is regarded as lost. */
const HEARTBEAT_MS = 1_000;
const SILENCE_MS = 3_500;
/** The server removes a consumer that is inactive for this long. */
const INACTIVE_MS = 30_000;
const PAUSE_MS = 200;

export interface EntryUpdate {
  readonly id: string;
  readonly revision: number;
  /** Null: the entry was removed. */
  readonly text: string | null;
}

/**
 * Watch of the bucket of runs: emits every existing entry, then every change, in order and each once. After a lost
 * connection, a gap in the sequence or silence it continues behind the last emitted revision, with a new consumer. The
 * library's KV watch may take more than a minute to detect the loss of the server that had the consumer.
 */
export class EntryFeed {
  readonly #nc: NatsConnection;
  readonly #jsm: JetStreamManager;
  readonly #emit: (update: EntryUpdate) => void;
  readonly #ready = Promise.withResolvers<void>();
  readonly #silence: NodeJS.Timeout;
  #subscription: Subscription | null = null;
  #consumer: string | null = null;
  /** Sequence of the last message in the current consumer. */
  #delivered = 0;
  /** Last emitted revision. */
  #revision = 0;
  /** Last revision at the start according to the leader: the consumer may be on a replica that lags. */
  #initialRevision = Number.POSITIVE_INFINITY;
  #isOpen = true;
  #isOpening = false;
  #isReopenDue = false;

  constructor(nc: NatsConnection, jsm: JetStreamManager, emit: (update: EntryUpdate) => void) {
    this.#nc = nc;
    this.#jsm = jsm;
    this.#emit = emit;
    this.#silence = setTimeout(() => this.#reopen(), SILENCE_MS).unref();
    void this.#reopenAfterReconnect();
    void this.#readInitialRevision();
    this.#reopen();
  }

  /** Resolves when all entries that existed at the start were emitted. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  stop(): void {
    this.#isOpen = false;
    clearTimeout(this.#silence);
    this.#leave();
  }

  async #readInitialRevision(): Promise<void> {
    for (;;) {
      try {
        const last = await this.#jsm.streams.getMessage(STREAM, { last_by_subj: `${SUBJECTS}>` });
        this.#initialRevision = last?.seq ?? 0;
        this.#checkReady();
        return;
      } catch {
        if (!this.#isOpen || this.#nc.isClosed()) return;
        await delay(PAUSE_MS, undefined, { ref: false });
      }
    }
  }

  #checkReady(): void {
    if (this.#consumer !== null && this.#revision >= this.#initialRevision) this.#ready.resolve();
  }

  /** Messages that were in flight on the lost connection did not arrive. */
  async #reopenAfterReconnect(): Promise<void> {
    for await (const { type } of this.#nc.status()) if (type === 'reconnect') this.#reopen();
  }

  /** Continues after the last emitted revision, with a new consumer. */
  #reopen(): void {
    this.#isReopenDue = true;
    if (!this.#isOpening) void this.#open();
  }

  async #open(): Promise<void> {
    this.#isOpening = true;
    while (this.#isOpen && this.#isReopenDue && !this.#nc.isClosed()) {
      this.#isReopenDue = false;
      this.#leave();
      this.#delivered = 0;
      const inbox = createInbox();
      const callback = (error: Error | null, message: Msg) => void (error === null && this.#receive(inbox, message));
      this.#subscription = this.#nc.subscribe(inbox, { callback });
      try {
        this.#consumer = (await this.#jsm.consumers.add(STREAM, this.#config(inbox))).name;
        if (this.#isOpen) this.#silence.refresh();
        else this.#leave();
        this.#checkReady();
      } catch {
        // There is no leader or no connection for now.
        await delay(PAUSE_MS, undefined, { ref: false });
        this.#isReopenDue = true;
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
      inactive_threshold: nanos(INACTIVE_MS),
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
    if (message.subject.startsWith(SUBJECTS)) this.#receiveEntry(message);
    else this.#receiveControl(message);
  }

  #receiveEntry(message: Msg): void {
    const { sequence: revision, delivered } = deliveryMetadata(message.reply ?? '');
    if (delivered !== this.#delivered + 1) {
      this.#reopen();
      return;
    }
    this.#delivered = delivered;
    this.#revision = revision;
    const { headers } = message;
    const isRemoved = headers !== undefined && (headers.has(OPERATION) || headers.has(REMOVED_BY_SERVER));
    this.#emit({
      id: message.subject.slice(SUBJECTS.length),
      revision,
      text: isRemoved ? null : message.string(),
    });
    this.#checkReady();
  }

  /** A heartbeat, or a flow control request. */
  #receiveControl(message: Msg): void {
    const { headers } = message;
    const sent = headers?.get(LAST_DELIVERED);
    if (sent !== undefined && sent !== '' && Number(sent) > this.#delivered) {
      this.#reopen();
      return;
    }
    // A heartbeat without pending messages: the last initial entry was removed before it could be delivered.
    if (sent !== undefined && sent !== '') this.#ready.resolve();
    const stalled = headers?.get(STALLED);
    if (stalled !== undefined && stalled !== '') this.#nc.publish(stalled);
    else if (message.reply !== undefined && message.reply !== '') message.respond();
  }
}
