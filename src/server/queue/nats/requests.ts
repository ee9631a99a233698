import {
  createInbox,
  type Msg,
  type NatsConnection,
  NoRespondersError,
  PermissionViolationError,
  RequestError,
  type RequestOptions,
  TimeoutError,
} from '@nats-io/transport-node';

const ANSWER_MS = 1_000;
/** How late it may be noticed that a time is over. */
const LOOK_MS = 100;
const NOBODY_THERE = 503;

interface Asked {
  readonly subject: string;
  readonly until: number;
  readonly resolve: (message: Msg) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Requests over one connection, in place of those of the client. What was asked over a connection that is lost fails at
 * once, so that whoever is patient asks again; what is asked while there is none is sent when there is, within its time.
 * The client's own would wait out their time in both cases; and each makes a timer and an error with a stack, whatever
 * becomes of it, which is a seventh of what a node of several does for a short run.
 */
export class Requests {
  readonly #nc: NatsConnection;
  readonly #client: NatsConnection['request'];
  readonly #inbox = createInbox();
  readonly #asked = new Map<string, Asked>();
  #next = 0;
  #back: PromiseWithResolvers<void> | null = null;
  /** One timer for all that were asked. */
  #look: NodeJS.Timeout | null = null;

  private constructor(nc: NatsConnection) {
    this.#nc = nc;
    this.#client = nc.request.bind(nc);
    nc.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => void (error === null && this.#answered(message)),
    });
    void this.#follow();
    void nc.closed().then(() => this.#fail('the connection to NATS is closed'));
  }

  /** From now on requests of this connection are made here. */
  static replace(nc: NatsConnection): void {
    const requests = new Requests(nc);
    nc.request = (subject, data, options) => requests.#request(subject, data, options);
  }

  async #request(subject: string, data: Uint8Array | string | undefined, options?: RequestOptions): Promise<Msg> {
    if (options?.noMux) return this.#client(subject, data, options);
    const ms = options?.timeout ?? ANSWER_MS;
    if (this.#back !== null) await within(this.#back.promise, ms);
    const token = String(this.#next++);
    const headers = options?.headers === undefined ? {} : { headers: options.headers };
    this.#nc.publish(subject, data, { reply: `${this.#inbox}.${token}`, ...headers });
    const { promise, resolve, reject } = Promise.withResolvers<Msg>();
    this.#asked.set(token, { subject, until: performance.now() + ms, resolve, reject });
    this.#look ??= setInterval(() => this.#endLate(), LOOK_MS).unref();
    return promise;
  }

  #answered(message: Msg): void {
    const token = message.subject.slice(this.#inbox.length + 1);
    const asked = this.#asked.get(token);
    if (asked === undefined) return;
    this.#asked.delete(token);
    if (message.data.length > 0 || message.headers?.code !== NOBODY_THERE) {
      asked.resolve(message);
      return;
    }
    const cause = new NoRespondersError(asked.subject);
    asked.reject(new RequestError(cause.message, { cause }));
  }

  #endLate(): void {
    const now = performance.now();
    for (const [token, { until, reject }] of this.#asked) {
      if (until > now) continue;
      this.#asked.delete(token);
      reject(new TimeoutError());
    }
    if (this.#asked.size > 0 || this.#look === null) return;
    clearInterval(this.#look);
    this.#look = null;
  }

  async #follow(): Promise<void> {
    for await (const status of this.#nc.status()) {
      if (status.type === 'reconnect') {
        this.#back?.resolve();
        this.#back = null;
      } else if (status.type === 'disconnect') {
        this.#back ??= Promise.withResolvers();
        this.#fail('the connection to NATS was lost');
      } else if (status.type === 'error' && status.error instanceof PermissionViolationError) {
        this.#refuse(status.error);
      }
    }
  }

  #fail(why: string): void {
    for (const { reject } of this.#asked.values()) reject(new Error(why));
    this.#asked.clear();
  }

  /** Nobody answers what may not be asked. */
  #refuse(error: PermissionViolationError): void {
    for (const [token, { subject, reject }] of this.#asked) {
      if (subject !== error.subject) continue;
      this.#asked.delete(token);
      reject(new RequestError(error.message, { cause: error }));
    }
  }
}

async function within(there: Promise<void>, ms: number): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no connection to NATS for ${ms} ms`)), ms);
  await Promise.race([there, late.promise]).finally(() => clearTimeout(timer));
}
