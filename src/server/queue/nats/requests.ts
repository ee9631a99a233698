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

import { withDeadline } from './nats-errors.ts';

const DEFAULT_TIMEOUT_MS = 1_000;
/** Interval of the check for expired requests, and thus how late a timeout may be reported. */
const EXPIRY_CHECK_MS = 100;
const NO_RESPONDERS = 503;

interface PendingRequest {
  readonly subject: string;
  readonly until: number;
  readonly resolve: (message: Msg) => void;
  readonly reject: (error: Error) => void;
}

/**
 * A view of `nc` whose requests fail fast; everything else is the connection itself. The connection is not modified, so
 * the library's own objects (JetStream, KV, object store) use these requests only if they are created with the view.
 */
export function withFailFastRequests(nc: NatsConnection): NatsConnection {
  const requests = new FailFastRequests(nc);
  const request: NatsConnection['request'] = (subject, data, options) => requests.request(subject, data, options);
  return new Proxy(nc, { get: (target, name) => (name === 'request' ? request : Reflect.get(target, name)) });
}

/**
 * Requests over one connection. When the connection is lost, pending requests fail at once, so that the caller can
 * retry; a request made while there is no connection is sent after the reconnect, within its timeout. The library's own
 * requests wait for their timeout in both cases, and create a timer and an error with a stack each.
 * perf: bench/topics/cluster.ts "a run of many on one node by NATS"
 */
class FailFastRequests {
  readonly #nc: NatsConnection;
  readonly #inbox = createInbox();
  readonly #pending = new Map<string, PendingRequest>();
  #nextToken = 0;
  /** Resolves at the next reconnect; null while connected. */
  #reconnected: PromiseWithResolvers<void> | null = null;
  /** One timer for all pending requests. */
  #expiryCheck: NodeJS.Timeout | null = null;

  constructor(nc: NatsConnection) {
    this.#nc = nc;
    nc.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => void (error === null && this.#settle(message)),
    });
    void this.#followStatus();
    void nc.closed().then(() => this.#failAll('the connection to NATS is closed'));
  }

  async request(subject: string, data: Uint8Array | string | undefined, options?: RequestOptions): Promise<Msg> {
    if (options?.noMux) return this.#nc.request(subject, data, options);
    const ms = options?.timeout ?? DEFAULT_TIMEOUT_MS;
    if (this.#reconnected !== null) {
      await withDeadline(ms, this.#reconnected.promise, () => new Error(`no connection to NATS for ${ms} ms`));
    }
    const token = String(this.#nextToken++);
    const headers = options?.headers === undefined ? {} : { headers: options.headers };
    this.#nc.publish(subject, data, { reply: `${this.#inbox}.${token}`, ...headers });
    const { promise, resolve, reject } = Promise.withResolvers<Msg>();
    this.#pending.set(token, { subject, until: performance.now() + ms, resolve, reject });
    this.#expiryCheck ??= setInterval(() => this.#expire(), EXPIRY_CHECK_MS).unref();
    return promise;
  }

  #settle(message: Msg): void {
    const token = message.subject.slice(this.#inbox.length + 1);
    const pending = this.#pending.get(token);
    if (pending === undefined) return;
    this.#pending.delete(token);
    if (message.data.length > 0 || message.headers?.code !== NO_RESPONDERS) {
      pending.resolve(message);
      return;
    }
    const cause = new NoRespondersError(pending.subject);
    pending.reject(new RequestError(cause.message, { cause }));
  }

  #expire(): void {
    const now = performance.now();
    for (const [token, { until, reject }] of this.#pending) {
      if (until > now) continue;
      this.#pending.delete(token);
      reject(new TimeoutError());
    }
    if (this.#pending.size > 0 || this.#expiryCheck === null) return;
    clearInterval(this.#expiryCheck);
    this.#expiryCheck = null;
  }

  async #followStatus(): Promise<void> {
    for await (const status of this.#nc.status()) {
      if (status.type === 'reconnect') {
        this.#reconnected?.resolve();
        this.#reconnected = null;
      } else if (status.type === 'disconnect') {
        this.#reconnected ??= Promise.withResolvers();
        this.#failAll('the connection to NATS was lost');
      } else if (status.type === 'error' && status.error instanceof PermissionViolationError) {
        this.#failForbidden(status.error);
      }
    }
  }

  #failAll(why: string): void {
    for (const { reject } of this.#pending.values()) reject(new Error(why));
    this.#pending.clear();
  }

  /** The server does not reply to a request on a forbidden subject. */
  #failForbidden(error: PermissionViolationError): void {
    for (const [token, { subject, reject }] of this.#pending) {
      if (subject !== error.subject) continue;
      this.#pending.delete(token);
      reject(new RequestError(error.message, { cause: error }));
    }
  }
}
