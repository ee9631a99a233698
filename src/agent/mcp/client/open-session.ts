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
  /** Of the process of a stdio server. */
  readonly home: HomePlace;
  readonly secrets: SecretSource;
  readonly http: () => Promise<HttpClient>;
  readonly tokens: TokenCache;
  readonly log: PoolLog;
  readonly now: () => number;
}

export interface SessionEvents {
  /** The connection broke; everything in flight fails. */
  lost(session: ServerSession, why: string): void;
  /** The server may have been restarted behind our back. */
  suspect(session: ServerSession): void;
  /** The server may have others than before; null: of every kind. */
  listChanged(kind: CallKind | null): void;
}

export interface ConnectLimits {
  readonly timeoutMs: number;
  /** Nobody wants the connection any more. */
  readonly signal: AbortSignal;
  /** Read and written. */
  readonly era: EraMemory;
}

/**
 * Connects and shakes hands. Whatever was started for an attempt that fails is ended.
 * @throws McpError
 */
export async function openSession(
  record: McpServerRecord,
  events: SessionEvents,
  { timeoutMs, signal, era }: ConnectLimits,
  deps: OpenSessionDeps,
): Promise<ServerSession> {
  const { server_id: serverId } = record;
  const probeTimeoutMs = Math.min(deps.options.probeTimeoutMs, Math.ceil(timeoutMs / 2));
  const opening = new Opening(record, events, { ...deps, era, probeTimeoutMs, timeoutMs });
  let giveUp: (error: McpError) => void = () => {};
  const givenUp = new Promise<never>((_resolve, reject) => {
    giveUp = reject;
  });
  const onTimeout = () => {
    const what = `connecting to server "${serverId}"${opening.lastWords()}`;
    // What the record says: of an earlier try the rest is left, which nobody has written anywhere.
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
  /** For the answer of a server that may be one of those that give none. */
  readonly probeTimeoutMs: number;
  readonly timeoutMs: number;
}

type Asked = (message: JSONRPCMessage, call: QuestionTarget | null) => boolean;

class Opening {
  readonly #record: McpServerRecord;
  readonly #events: SessionEvents;
  readonly #deps: OpeningDeps;
  #transport: Transport | null = null;
  #session: ServerSession | null = null;
  #stderr: StderrLog | null = null;
  /** Of the old SSE transport, which is the library's own; the others have their own way for calls. */
  #libraryCalls: LibraryCalls | null = null;
  #note = '';
  #lossBeforeSession: string | null = null;
  #abandoned = false;
  #wasAskedInVain = false;
  /** It said no to the greeting, in words of the protocol. */
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
    if (greeting !== 'ask') return this.#connect(greeting, library, resolved, timeoutMs);
    // One that answered before is waited for as long as there is time.
    const patienceMs = era.bearsAsking === true ? timeoutMs : probeTimeoutMs;
    const beganAt = performance.now();
    const wasSilent = () => performance.now() - beganAt >= patienceMs;
    let session: ServerSession;
    let isLate = false;
    try {
      session = await this.#connect(greeting, library, resolved, patienceMs);
      // A stdio server that says nothing is greeted the old way over the same pipes.
      era.bearsAsking = session.era === 'modern' || !wasSilent();
      return session;
    } catch (error) {
      // One that starts slowly answers the question late, and then wants no other greeting.
      isLate = this.#wasRefused && wasSilent();
      const isLegacy = this.#wasAskedInVain && era.bearsAsking !== true;
      if (this.#abandoned || !(isLate || isLegacy)) throw error;
    }
    await this.#transport?.close();
    this.#lossBeforeSession = null;
    session = await this.#connect(isLate ? 'ask' : 'legacy', library, resolved, timeoutMs);
    era.bearsAsking = isLate;
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
      this.#wasAskedInVain = this.#lossBeforeSession !== null || mayBeLegacy(error, library);
      if (this.#lossBeforeSession !== null) throw this.#failure(resolved.redact(this.#lossBeforeSession));
      if (typeof greeting === 'object' && this.#wasAskedInVain) {
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

  /** After a failure or the deadline: whatever was started ends. */
  abandon(): void {
    this.#abandoned = true;
    void this.#transport?.close();
  }

  lastWords(): string {
    const line = this.#stderr?.lastLine ?? '';
    return line === '' ? '' : ` (last line of its stderr: ${line})`;
  }

  async #makeTransport(
    library: McpLibrary,
    resolved: ResolvedRecord,
    asked: Asked,
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

  #stdio(library: McpLibrary, resolved: ResolvedRecord, asked: Asked): StdioTransport {
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
      lost: (why) => this.#lost(`${why}${this.lastWords()}`),
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
    return new McpConnectionError(serverId, 'connect_failed', `${known.message}${this.lastWords()}${this.#note}`);
  }
}

/** The version that begins with `server/discover` and has no sessions. Before it is `initialize`. */
export const MODERN_VERSION = '2026-07-28';

/** What a connection found out about its server, for the next one that is made in the same way. */
export interface EraMemory {
  /** Whether it was asked for its era and answered; null: it never was, or nothing came of it. */
  bearsAsking: boolean | null;
}

/** How a server is greeted. */
export type Greeting = 'ask' | 'legacy' | { readonly pin: string };

/** A version that is not known here is taken for the old way; the old SSE transport has no other. */
export function greetingOf({ protocol, transport }: McpServerRecord, memory: EraMemory): Greeting {
  if (transport === 'http_sse_legacy') return 'legacy';
  if (protocol === 'auto') return memory.bearsAsking === false ? 'legacy' : 'ask';
  return protocol === MODERN_VERSION ? { pin: protocol } : 'legacy';
}

export function negotiation(greeting: Greeting, probeTimeoutMs: number): VersionNegotiationOptions {
  const probe = { timeoutMs: probeTimeoutMs };
  if (greeting === 'ask') return { mode: 'auto', probe };
  return greeting === 'legacy' ? { mode: 'legacy' } : { mode: { pin: greeting.pin }, probe };
}

export function priorOf(greeting: Greeting): Pick<ConnectOptions, 'prior'> {
  return greeting === 'legacy' ? { prior: { kind: 'legacy' } } : {};
}

/**
 * Whether a server that was asked may be one of those that cannot be: they end, say nothing, or answer with something
 * that means nothing. One that cannot be reached, or refuses us, is no such server.
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

/** What a server without sessions is told with each request, as `_meta`. The library does so with its own. */
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

/** A stream that was open for so long was worth opening. */
const LISTENED_MS = 10_000;

/**
 * A server without sessions tells of changes only where somebody listens, so one stream is kept open for as long as the
 * session is used. A server that does not want to be listened to is left in peace: its list is asked for when it is old.
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
    // What changed while nobody listened was told to nobody.
    changed();
  }
}
