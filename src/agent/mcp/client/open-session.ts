import { setTimeout as delay } from 'node:timers/promises';
import type {
  Client,
  ClientCapabilities,
  ConnectOptions,
  JSONRPCMessage,
  Transport,
  VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import type { JsonObject } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import type { HttpClient } from '../../../server/egress/http-client.ts';
import type { McpServerRecord } from '../../../server/records/server.ts';
import type { SecretSource } from '../../../server/secrets/secret-file.ts';
import { LibraryCalls, NO_LIBRARY_TIMEOUT_MS } from './call-sender.ts';
import type { QuestionTarget } from './elicitation/question.ts';
import { capabilitiesOf, ServerQuestions } from './elicitation/server-questions.ts';
import { McpConnectionError, type McpError, McpTimeoutError } from './errors.ts';
import { fromLibrary } from './library-errors.ts';
import { authorizedFetch, type TokenCache } from './oauth/server-tokens.ts';
import type { CompiledPoolOptions, PoolLimits, PoolLog } from './pool-options.ts';
import type { HomePlace } from './process/directories.ts';
import { StderrLog } from './process/stderr-log.ts';
import type { ProcessSupervisor } from './process/supervisor.ts';
import { type ResolvedRecord, resolveRecord } from './resolved-record.ts';
import { ServerSession } from './session.ts';
import { ResumePace } from './transport/event-stream.ts';
import { SseTransport } from './transport/sse-transport.ts';
import { StdioTransport } from './transport/stdio-transport.ts';
import { StreamableHttpTransport } from './transport/streamable-http-transport.ts';
import type { McpLibrary } from './transport/transport.ts';

export interface OpenSessionDeps {
  readonly options: CompiledPoolOptions;
  readonly supervisor: ProcessSupervisor;
  /** For the process of a stdio server. */
  readonly home: HomePlace;
  readonly secrets: SecretSource;
  readonly http: () => Promise<HttpClient>;
  readonly tokens: TokenCache;
  readonly log: PoolLog;
  readonly now: () => number;
}

export interface SessionEvents {
  /** The connection broke; requests in flight fail. */
  lost(session: ServerSession, why: string): void;
  /** The server may have been restarted. */
  suspect(session: ServerSession): void;
  /** The server's list may have changed; null: all lists. */
  listChanged(kind: CallKind | null): void;
}

export interface ConnectLimits {
  readonly timeoutMs: number;
  /** Aborted when the connection is not needed any more. */
  readonly signal: AbortSignal;
  /** Read and updated. */
  readonly era: EraMemory;
}

/*
 * Opening a session: resolve the record, make the transport, negotiate the protocol era, shake hands.
 *
 * Invariants
 * - Whatever was started for a failed attempt is ended before the error is thrown.
 * - The deadline of the record covers all greetings of one attempt.
 * - A server in `auto` mode is probed with `server/discover`. If the probe fails like that of an old server, the session is
 *   opened with `initialize` on a new transport; `EraMemory` saves the probe next time.
 *
 * Not handled here: retries and backoff (connection.ts), OAuth flows (oauth/).
 */

/** Connects and shakes hands. @throws McpError */
export async function openSession(
  record: McpServerRecord,
  events: SessionEvents,
  { timeoutMs, signal, era }: ConnectLimits,
  deps: OpenSessionDeps,
): Promise<ServerSession> {
  const { server_id: serverId } = record;
  const probeTimeoutMs = Math.min(deps.options.probeTimeoutMs, Math.ceil(timeoutMs / 2));
  const opening = new SessionOpening(record, events, { ...deps, era, probeTimeoutMs, timeoutMs });
  let giveUp: (error: McpError) => void = () => {};
  const givenUp = new Promise<never>((_resolve, reject) => {
    giveUp = reject;
  });
  const onTimeout = () => {
    const what = `connecting to server "${serverId}"${opening.stderrTail()}`;
    // The configured limit: `timeoutMs` may be the remainder after an earlier attempt.
    giveUp(new McpTimeoutError(serverId, record.budgets.connect_timeout_ms, what));
  };
  const onAbort = () =>
    giveUp(new McpConnectionError(serverId, 'closed', `connecting to server "${serverId}" was cancelled`));
  const timer = setTimeout(onTimeout, timeoutMs);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([givenUp, opening.run()]);
  } catch (error) {
    opening.abandon();
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

interface OpeningDeps extends OpenSessionDeps {
  readonly era: EraMemory;
  /** Time for the probe, which an old server may never answer. */
  readonly probeTimeoutMs: number;
  readonly timeoutMs: number;
}

type RequestHandler = (message: JSONRPCMessage, call: QuestionTarget | null) => boolean;

class SessionOpening {
  readonly #record: McpServerRecord;
  readonly #events: SessionEvents;
  readonly #deps: OpeningDeps;
  #transport: Transport | null = null;
  #session: ServerSession | null = null;
  #stderr: StderrLog | null = null;
  /** Tool calls of the old SSE transport; the other transports have their own sender. */
  #libraryCalls: LibraryCalls | null = null;
  #note = '';
  #lossBeforeSession: string | null = null;
  #abandoned = false;
  /** The probe failed as it does at an old server. */
  #probeFailed = false;
  /** The server rejected the greeting with a protocol error. */
  #wasRefused = false;

  constructor(record: McpServerRecord, events: SessionEvents, deps: OpeningDeps) {
    this.#record = record;
    this.#events = events;
    this.#deps = deps;
  }

  async run(): Promise<ServerSession> {
    const resolved = await resolveRecord(this.#record, this.#deps.secrets);
    const library = await import('@modelcontextprotocol/client');
    const { era, probeTimeoutMs, timeoutMs } = this.#deps;
    const greeting = greetingOf(this.#record, era);
    if (greeting !== 'probe') return this.#connect(greeting, library, resolved, timeoutMs);
    // A server that answered a probe before gets the whole time.
    const patienceMs = era.answersProbe === true ? timeoutMs : probeTimeoutMs;
    const beganAt = performance.now();
    const wasSilent = () => performance.now() - beganAt >= patienceMs;
    let session: ServerSession;
    let isLate = false;
    try {
      session = await this.#connect(greeting, library, resolved, patienceMs);
      // After silence the library greets a stdio server the old way over the same pipes.
      era.answersProbe = session.era === 'modern' || !wasSilent();
      return session;
    } catch (error) {
      // A server that starts slowly may answer the probe after its deadline; it is probed again.
      isLate = this.#wasRefused && wasSilent();
      const isLegacy = this.#probeFailed && era.answersProbe !== true;
      if (this.#abandoned || !(isLate || isLegacy)) throw error;
    }
    await this.#transport?.close();
    this.#lossBeforeSession = null;
    session = await this.#connect(isLate ? 'probe' : 'legacy', library, resolved, timeoutMs);
    era.answersProbe = isLate;
    return session;
  }

  async #connect(
    greeting: Greeting,
    library: McpLibrary,
    resolved: ResolvedRecord,
    patienceMs: number,
  ): Promise<ServerSession> {
    const { server_id: serverId } = this.#record;
    const { options, log } = this.#deps;
    const { redact, redactContent } = resolved;
    const questions: ServerQuestions = new ServerQuestions({
      record: this.#record,
      redactContent,
      log,
      send: (message) => transport.send(message),
    });
    const transport = await this.#makeTransport(library, resolved, (message, call) => questions.take(message, call));
    const capabilities = capabilitiesOf(this.#record);
    const client = new library.Client(
      { ...options.client },
      { capabilities, versionNegotiation: negotiation(greeting, patienceMs) },
    );
    for (const kind of ['tool', 'resource', 'prompt'] as const) {
      client.setNotificationHandler(`notifications/${kind}s/list_changed`, () => this.#events.listChanged(kind));
    }
    this.#transport = transport;
    if (this.#abandoned) throw this.#failure('the attempt was abandoned');
    try {
      await client.connect(transport, { timeout: NO_LIBRARY_TIMEOUT_MS, ...priorOf(greeting) });
    } catch (error) {
      this.#wasRefused = error instanceof library.ProtocolError;
      this.#probeFailed = this.#lossBeforeSession !== null || mayBeLegacy(error, library);
      if (this.#lossBeforeSession !== null) throw this.#failure(resolved.redact(this.#lossBeforeSession));
      if (typeof greeting === 'object' && this.#probeFailed) {
        throw this.#failure(
          `it does not support protocol version ${greeting.pin}, which the server config requires (protocol)`,
        );
      }
      throw this.#connectError(error, library, resolved);
    }
    const era = client.getProtocolEra() ?? 'legacy';
    const requests = new LibraryCalls(client);
    this.#libraryCalls = requests;
    const calls = transport instanceof SseTransport ? requests : transport.calls;
    if (era === 'modern' && !(transport instanceof SseTransport)) {
      const version = client.getNegotiatedProtocolVersion() ?? MODERN_VERSION;
      transport.calls.setSessionMeta(requestMeta(version, { client: options.client, capabilities }, library));
    }
    const mirrorsHeaders = era === 'modern' && transport instanceof StreamableHttpTransport;
    const about = { serverId, client, library, redact, redactContent };
    const session = new ServerSession({ ...about, calls, requests, questions, era, mirrorsHeaders });
    if (this.#lossBeforeSession !== null) throw this.#failure(resolved.redact(this.#lossBeforeSession));
    this.#session = session;
    if (era === 'modern') void listenForChanges(session, client, options, () => this.#events.listChanged(null));
    return session;
  }

  /** After a failure or the deadline: ends whatever was started. */
  abandon(): void {
    this.#abandoned = true;
    void this.#transport?.close();
  }

  stderrTail(): string {
    const line = this.#stderr?.lastLine ?? '';
    return line === '' ? '' : ` (last line of its stderr: ${line})`;
  }

  async #makeTransport(
    library: McpLibrary,
    resolved: ResolvedRecord,
    asked: RequestHandler,
  ): Promise<StdioTransport | StreamableHttpTransport | SseTransport> {
    const { server_id: serverId, transport } = this.#record;
    const { maxMessageBytes } = this.#deps.options;
    if (transport === 'stdio') return this.#stdio(library, resolved, asked);
    if (resolved.http === null)
      throw new McpConnectionError(serverId, 'record_invalid', `server "${serverId}" has no url`);
    const target = resolved.http;
    const http = await this.#deps.http();
    const tokens = this.#deps.tokens.of(this.#record, { ...resolved, http: target }, library, http);
    const fetch = tokens === null ? http.fetch : authorizedFetch(http.fetch, target.url, tokens);
    const common = { serverId, target, library, fetch, maxMessageBytes };
    const lost = (why: string) => this.#lost(why);
    if (transport === 'http_sse_legacy') {
      const duringCall = (message: JSONRPCMessage) => asked(message, this.#libraryCalls?.onlyCall ?? null);
      return new SseTransport({ ...common, lost, asked: duringCall });
    }
    return new StreamableHttpTransport({
      ...common,
      asked,
      dispatcher: http.dispatcher,
      tokens,
      suspect: () => {
        if (this.#session !== null) this.#events.suspect(this.#session);
      },
    });
  }

  #stdio(library: McpLibrary, resolved: ResolvedRecord, asked: RequestHandler): StdioTransport {
    const { server_id: serverId, stdio } = this.#record;
    const { options, log, now, supervisor, home } = this.#deps;
    if (stdio === null) throw new McpConnectionError(serverId, 'record_invalid', `server "${serverId}" has no command`);
    const emit = (message: string) => log({ level: 'info', event: 'stderr', serverId, message });
    const stderr = new StderrLog({ limits: options, redact: resolved.redact, emit, now });
    this.#stderr = stderr;
    return new StdioTransport({
      serverId,
      start: async () => {
        const { command, args, cwd } = stdio;
        const { sandbox } = this.#record;
        const running = await supervisor.start({ serverId, home, command, args, cwd, env: resolved.env, sandbox });
        this.#note = running.note;
        stderr.attach(running.child.stderr);
        return running;
      },
      parse: library.deserializeMessage,
      asked,
      lost: (why) => this.#lost(`${why}${this.stderrTail()}`),
      garbage: () => {
        const message = 'a line on stdout is not an MCP message; servers must log to stderr';
        log({ level: 'warn', event: 'stdout_garbage', serverId, message });
      },
      maxMessageBytes: options.maxMessageBytes,
      maxGarbageLines: options.maxGarbageLines,
      garbageWindowMs: options.garbageWindowMs,
    });
  }

  #lost(why: string): void {
    if (this.#session === null) this.#lossBeforeSession = why;
    else this.#events.lost(this.#session, why);
  }

  #failure(why: string): McpConnectionError {
    const { server_id: serverId } = this.#record;
    return new McpConnectionError(
      serverId,
      'connect_failed',
      `could not connect to server "${serverId}": ${why}${this.#note}`,
    );
  }

  #connectError(error: unknown, library: McpLibrary, { redact }: ResolvedRecord): McpError {
    const { server_id: serverId } = this.#record;
    const what = `connecting to server "${serverId}"`;
    const known = fromLibrary(error, { serverId, what, toolName: '', redact, library });
    if (known instanceof McpConnectionError && known.reason !== 'lost') return known;
    if (known.code === 'mcp_budget_exceeded' || known.code === 'mcp_policy_denied') return known;
    return new McpConnectionError(serverId, 'connect_failed', `${known.message}${this.stderrTail()}${this.#note}`);
  }
}

/** Protocol version with `server/discover` and without sessions. Older versions start with `initialize`. */
export const MODERN_VERSION = '2026-07-28';

/** Result of the protocol probe, for the next session of the same connection. */
export interface EraMemory {
  /** Whether the server answers the probe; null: unknown. */
  answersProbe: boolean | null;
}

/** First message to a server: the probe, `initialize`, or a pinned version. */
export type Greeting = 'probe' | 'legacy' | { readonly pin: string };

/** Unknown versions and the old SSE transport use `initialize`. */
export function greetingOf({ protocol, transport }: McpServerRecord, memory: EraMemory): Greeting {
  if (transport === 'http_sse_legacy') return 'legacy';
  if (protocol === 'auto') return memory.answersProbe === false ? 'legacy' : 'probe';
  return protocol === MODERN_VERSION ? { pin: protocol } : 'legacy';
}

export function negotiation(greeting: Greeting, probeTimeoutMs: number): VersionNegotiationOptions {
  const probe = { timeoutMs: probeTimeoutMs };
  if (greeting === 'probe') return { mode: 'auto', probe };
  return greeting === 'legacy' ? { mode: 'legacy' } : { mode: { pin: greeting.pin }, probe };
}

export function priorOf(greeting: Greeting): Pick<ConnectOptions, 'prior'> {
  return greeting === 'legacy' ? { prior: { kind: 'legacy' } } : {};
}

/**
 * Whether a failed probe may come from an old server: those exit, stay silent, or answer with nonsense. A server that is
 * unreachable or denies access is not one of them.
 */
export function mayBeLegacy(error: unknown, library: McpLibrary): boolean {
  if (error instanceof library.SdkHttpError) return error.status >= 500;
  if (!(error instanceof library.SdkError)) return false;
  const { SdkErrorCode } = library;
  if (error.code === SdkErrorCode.RequestTimeout) return true;
  if (error.code !== SdkErrorCode.EraNegotiationFailed) return false;
  const { cause } = error;
  return cause === undefined || cause instanceof SyntaxError || cause instanceof library.SdkError;
}

/** `_meta` of each request to a server without sessions; the library adds the same to its own requests. */
export function requestMeta(
  version: string,
  about: {
    readonly client: { readonly name: string; readonly version: string };
    readonly capabilities: ClientCapabilities;
  },
  library: McpLibrary,
): JsonObject {
  return {
    [library.PROTOCOL_VERSION_META_KEY]: version,
    [library.CLIENT_INFO_META_KEY]: { ...about.client },
    [library.CLIENT_CAPABILITIES_META_KEY]: { ...about.capabilities } as JsonObject,
  };
}

/** A subscription that stays open this long resets the reconnect backoff. */
const LISTENED_MS = 10_000;

/**
 * Subscribes to list changes of a server without sessions, for as long as the session is usable. If the server rejects the
 * subscription, its lists are refreshed by age alone.
 */
export async function listenForChanges(
  session: ServerSession,
  client: Client,
  { listTimeoutMs }: PoolLimits,
  changed: () => void,
): Promise<void> {
  const { tools, resources, prompts } = client.getServerCapabilities() ?? {};
  const wanted = {
    ...(tools?.listChanged === true ? { toolsListChanged: true } : {}),
    ...(resources?.listChanged === true ? { resourcesListChanged: true } : {}),
    ...(prompts?.listChanged === true ? { promptsListChanged: true } : {}),
  };
  if (Object.keys(wanted).length === 0) return;
  const pace = new ResumePace();
  while (session.usable) {
    try {
      const subscription = await client.listen(wanted, { timeout: listTimeoutMs });
      const openSinceMs = performance.now();
      await subscription.closed;
      if (performance.now() - openSinceMs > LISTENED_MS) pace.reset();
    } catch {
      return;
    }
    const pauseMs = pace.nextMs(null);
    if (pauseMs === null || !session.usable) return;
    await delay(pauseMs, undefined, { ref: false });
    // Changes between two subscriptions were not reported.
    changed();
  }
}
