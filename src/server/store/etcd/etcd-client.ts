import { type Client, Code, ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { errorCode, errorText, isUntrustedCertificate } from '../../../base/errors.ts';
import type { EtcdConfig } from '../../../config/registry/etcd.ts';
import { Auth, Lease, Maintenance } from '../../../generated/proto/etcdserverpb/cluster_pb.ts';
import { KV } from '../../../generated/proto/etcdserverpb/kv_pb.ts';
import { Watch, type WatchResponse } from '../../../generated/proto/etcdserverpb/watch_pb.ts';

/** Timeout of one attempt on one member. */
const TRY_MS = 3_000;
/** A hanging member is detected after the sum of both. */
const PING_INTERVAL_MS = 2_000;
const PING_TIMEOUT_MS = 2_000;
/** Between two rounds over all members. */
const ROUND_PAUSE_MS = 100;
/** All records of a kind are one message. */
const MAX_MESSAGE_BYTES = 512 * 1024 * 1024;

/** Codes that a retry on any member does not change. */
const definite: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.NotFound,
  Code.PermissionDenied,
  Code.FailedPrecondition,
  Code.OutOfRange,
  Code.Unimplemented,
  Code.ResourceExhausted,
]);

/** Codes of a connection that the member closed or reset. */
const closedCodes: ReadonlySet<Code> = new Set([Code.Canceled, Code.Aborted]);

export interface Member {
  readonly endpoint: string;
  readonly kv: Client<typeof KV>;
  readonly lease: Client<typeof Lease>;
  readonly maintenance: Client<typeof Maintenance>;
  readonly watch: Client<typeof Watch>;
}

/** etcd rejected the request, or did not respond in time. */
export class EtcdError extends Error {
  /** A retry would fail the same way. */
  readonly isDefinite: boolean;
  /** Only this member would fail the same way. */
  readonly isOfMember: boolean;

  constructor(message: string, isDefinite: boolean, cause: unknown, isOfMember = false) {
    super(message, { cause });
    this.name = 'EtcdError';
    this.isDefinite = isDefinite;
    this.isOfMember = isOfMember;
  }
}

/** Client of the members of one etcd: a call to a failed member goes to the next one. */
export class EtcdClient {
  readonly #members: readonly Member[];
  readonly #sessions: Http2SessionManager[] = [];
  readonly #config: EtcdConfig;
  #token: string | null = null;
  #at = 0;

  constructor(config: EtcdConfig) {
    this.#config = config;
    this.#members = config.endpoints.map((endpoint) => this.#connect(endpoint));
  }

  /** Name in messages. */
  get name(): string {
    return this.#config.endpoints.join(', ');
  }

  /**
   * Calls one member after another until one answers or the deadline passes. The request must be idempotent. `onDoubt` is called
   * when a member failed and may have executed the request.
   */
  async ask<T>(
    work: (member: Member, options: { timeoutMs: number; signal?: AbortSignal }) => Promise<T>,
    options: { readonly deadlineMs: number; readonly signal?: AbortSignal; readonly onDoubt?: () => void },
  ): Promise<T> {
    const endsAt = performance.now() + options.deadlineMs;
    let refusals = 0;
    let last: EtcdError | null = null;
    for (let failures = 0; ; ) {
      const leftMs = Math.ceil(endsAt - performance.now());
      const timeoutMs = Math.max(1, Math.min(TRY_MS, leftMs));
      const member = this.#current;
      try {
        await this.#logIn(member);
        return await work(member, { timeoutMs, ...(options.signal ? { signal: options.signal } : {}) });
      } catch (error) {
        failures++;
        options.signal?.throwIfAborted();
        const problem = this.#problemOf(error);
        refusals = problem.isOfMember ? refusals + 1 : 0;
        if (problem.isDefinite || refusals >= this.#members.length) throw problem;
        if (!wasNeverSent(error)) options.onDoubt?.();
        this.leave(member);
        const pause = failures % this.#members.length === 0 ? ROUND_PAUSE_MS : 0;
        // An attempt with a shortened timeout says nothing about the cause; the previous one may.
        const isCutShort = timeoutMs < TRY_MS && ConnectError.from(error).code === Code.DeadlineExceeded;
        if (!isCutShort) last = problem;
        if (performance.now() + pause >= endsAt) throw last ?? problem;
        if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  /** A watch stream of one member. After its end, the next call uses another member. */
  async *watch(
    key: Uint8Array,
    rangeEnd: Uint8Array,
    startRevision: bigint,
    signal: AbortSignal,
  ): AsyncGenerator<WatchResponse> {
    const member = this.#current;
    try {
      await this.#logIn(member);
      const create = { key, rangeEnd, startRevision, progressNotify: true };
      const requests = async function* () {
        yield { requestUnion: { case: 'createRequest' as const, value: create } };
        // Its end would end the stream.
        await aborted(signal);
      };
      // A member without a leader then ends the stream instead of staying silent.
      yield* member.watch.watch(requests(), { signal, headers: { hasleader: 'true' } });
      throw new Error('the watch stream ended');
    } catch (error) {
      this.leave(member);
      throw this.#problemOf(error);
    }
  }

  /** Moves on from a failed member, unless another call already did. */
  leave(member: Member): void {
    if (this.#current === member) this.#at = (this.#at + 1) % this.#members.length;
  }

  close(): void {
    for (const session of this.#sessions) session.abort();
  }

  get #current(): Member {
    const member = this.#members[this.#at];
    if (!member) throw new Error('no etcd endpoint is configured');
    return member;
  }

  #connect(endpoint: string): Member {
    const { tls } = this.#config;
    const sessionManager = new Http2SessionManager(
      endpoint,
      { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS },
      {
        ...(tls.ca === null ? {} : { ca: tls.ca }),
        ...(tls.cert === null || tls.key === null ? {} : { cert: tls.cert, key: tls.key }),
      },
    );
    this.#sessions.push(sessionManager);
    const loggedIn: Interceptor = (next) => (request) => {
      if (this.#token !== null) request.header.set('token', this.#token);
      return next(request);
    };
    const transport = createGrpcTransport({
      baseUrl: endpoint,
      sessionManager,
      acceptCompression: [],
      readMaxBytes: MAX_MESSAGE_BYTES,
      interceptors: [loggedIn],
    });
    return {
      endpoint,
      kv: createClient(KV, transport),
      lease: createClient(Lease, transport),
      maintenance: createClient(Maintenance, transport),
      watch: createClient(Watch, transport),
      ...(this.#config.login === null ? {} : { auth: createClient(Auth, transport) }),
    };
  }

  async #logIn(member: Member & { readonly auth?: Client<typeof Auth> }): Promise<void> {
    const { login } = this.#config;
    if (login === null || member.auth === undefined || this.#token !== null) return;
    const request = { name: login.user, password: login.password().reveal() };
    this.#token = (await member.auth.authenticate(request, { timeoutMs: TRY_MS })).token;
  }

  #problemOf(error: unknown): EtcdError {
    if (error instanceof EtcdError) return error;
    const text = `etcd at ${this.#current.endpoint}: ${errorText(error)}`;
    if (!(error instanceof ConnectError)) return new EtcdError(text, false, error);
    const certificate = certificateProblem(error, this.#config.tls);
    if (certificate !== null)
      return new EtcdError(`etcd at ${this.#current.endpoint}: ${certificate}`, false, error, true);
    if (error.code === Code.Unauthenticated) this.#token = null; // it ends after some time
    const asksWho = /user name is empty/.test(error.rawMessage) && this.#config.login === null;
    const hint = asksWho
      ? ': authentication is required; set store.etcd.user and store.etcd.password'
      : closedCodes.has(error.code) && this.#current.endpoint.startsWith('http:')
        ? ' (the connection was not encrypted; if etcd requires TLS, set store.etcd.ca)'
        : '';
    // A member without a leader or under overload reports a generic code; only the text tells the cause.
    const passes = /no leader|timed out|too many requests|leader changed/.test(error.rawMessage);
    const isFinal = definite.has(error.code) || /authentication failed|user name is empty/.test(error.rawMessage);
    return new EtcdError(text + hint, isFinal && !passes, error);
  }
}

/** Null: not a certificate problem. */
function certificateProblem({ cause }: ConnectError, { ca, cert }: EtcdConfig['tls']): string | null {
  const code = errorCode(cause);
  if (isUntrustedCertificate(code)) {
    const advice = ca === null ? 'set store.etcd.ca to the CA that issued it' : 'it was not issued by store.etcd.ca';
    return `the server certificate is not trusted (${code}): ${advice}`;
  }
  if (!/^ERR_SSL_.*ALERT_.*(?:CERTIFICATE|UNKNOWN_CA)/.test(code ?? '')) return null;
  return cert === null
    ? 'a client certificate is required: set store.etcd.cert and store.etcd.key'
    : 'etcd rejected the client certificate store.etcd.cert';
}

/** Connection refused: the request was not executed. */
function wasNeverSent(error: unknown): boolean {
  return error instanceof ConnectError && /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH/.test(error.rawMessage);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
