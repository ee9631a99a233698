import type { FetchLike, Transport } from '@modelcontextprotocol/client';
import type { McpServerRecord } from '../protocol/record.ts';
import type { SecretSource } from '../secrets/secret-source.ts';
import { McpConnectionError, type McpError, McpTimeoutError } from './errors.ts';
import { fromLibrary } from './library-errors.ts';
import type { PoolLog } from './pool-log.ts';
import type { CompiledPoolOptions } from './pool-options.ts';
import { StderrLog } from './process/stderr-log.ts';
import type { ProcessSupervisor } from './process/supervisor.ts';
import { type ResolvedRecord, resolveRecord } from './resolved-record.ts';
import { NO_LIBRARY_TIMEOUT_MS, ServerSession } from './session.ts';
import type { McpLibrary } from './transport/http-target.ts';
import { SseTransport } from './transport/sse-transport.ts';
import { StdioTransport } from './transport/stdio-transport.ts';
import { StreamableHttpTransport } from './transport/streamable-http-transport.ts';

export interface OpenSessionDeps {
  readonly options: CompiledPoolOptions;
  readonly supervisor: ProcessSupervisor;
  readonly secrets: SecretSource;
  readonly fetch: () => Promise<FetchLike>;
  readonly log: PoolLog;
  readonly now: () => number;
}

export interface SessionEvents {
  /** The connection broke; everything in flight fails. */
  lost(session: ServerSession, why: string): void;
  /** The server may have been restarted behind our back. */
  suspect(session: ServerSession): void;
  toolsChanged(): void;
}

export interface ConnectLimits {
  readonly timeoutMs: number;
  /** Nobody wants the connection any more. */
  readonly signal: AbortSignal;
}

/**
 * Connects and shakes hands. Whatever was started for an attempt that fails is ended.
 * @throws McpError
 */
export async function openSession(
  record: McpServerRecord,
  events: SessionEvents,
  { timeoutMs, signal }: ConnectLimits,
  deps: OpenSessionDeps,
): Promise<ServerSession> {
  const { server_id: serverId } = record;
  const opening = new Opening(record, events, deps);
  let giveUp: (error: McpError) => void = () => {};
  const givenUp = new Promise<never>((_resolve, reject) => {
    giveUp = reject;
  });
  const onTimeout = () => {
    const what = `connecting to server "${serverId}"${opening.lastWords()}`;
    giveUp(new McpTimeoutError(serverId, timeoutMs, what));
  };
  const onAbort = () =>
    giveUp(new McpConnectionError(serverId, 'closed', `server "${serverId}" is not wanted any more`));
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

class Opening {
  readonly #record: McpServerRecord;
  readonly #events: SessionEvents;
  readonly #deps: OpenSessionDeps;
  #transport: Transport | null = null;
  #session: ServerSession | null = null;
  #stderr: StderrLog | null = null;
  #note = '';
  #lossBeforeSession: string | null = null;
  #abandoned = false;

  constructor(record: McpServerRecord, events: SessionEvents, deps: OpenSessionDeps) {
    this.#record = record;
    this.#events = events;
    this.#deps = deps;
  }

  async run(): Promise<ServerSession> {
    const { server_id: serverId } = this.#record;
    const resolved = await resolveRecord(this.#record, this.#deps.secrets);
    const library = await import('@modelcontextprotocol/client');
    const transport = await this.#makeTransport(library, resolved);
    const client = new library.Client(
      { ...this.#deps.options.client },
      { capabilities: {}, versionNegotiation: { mode: 'legacy' } },
    );
    client.setNotificationHandler('notifications/tools/list_changed', () => this.#events.toolsChanged());
    this.#transport = transport;
    if (this.#abandoned) throw this.#failure('given up');
    try {
      await client.connect(transport, { timeout: NO_LIBRARY_TIMEOUT_MS });
    } catch (error) {
      if (this.#lossBeforeSession !== null) throw this.#failure(resolved.redact(this.#lossBeforeSession));
      throw this.#connectError(error, library, resolved);
    }
    const { redact, redactContent } = resolved;
    const session = new ServerSession({ serverId, client, library, redact, redactContent });
    if (this.#lossBeforeSession !== null) throw this.#failure(resolved.redact(this.#lossBeforeSession));
    this.#session = session;
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

  async #makeTransport(library: McpLibrary, resolved: ResolvedRecord): Promise<Transport> {
    const { server_id: serverId, transport } = this.#record;
    const { maxMessageBytes } = this.#deps.options;
    if (transport === 'stdio') return this.#stdio(library, resolved);
    if (resolved.http === null)
      throw new McpConnectionError(serverId, 'record_invalid', `server "${serverId}" has no url`);
    const common = { serverId, target: resolved.http, library, fetch: await this.#deps.fetch(), maxMessageBytes };
    const lost = (why: string) => this.#lost(why);
    if (transport === 'http_sse_legacy') return new SseTransport({ ...common, lost });
    return new StreamableHttpTransport({
      ...common,
      suspect: () => {
        if (this.#session !== null) this.#events.suspect(this.#session);
      },
    });
  }

  #stdio(library: McpLibrary, resolved: ResolvedRecord): Transport {
    const { server_id: serverId, stdio } = this.#record;
    const { options, log, now, supervisor } = this.#deps;
    if (stdio === null) throw new McpConnectionError(serverId, 'record_invalid', `server "${serverId}" has no command`);
    const emit = (message: string) => log({ level: 'info', event: 'stderr', serverId, message });
    const stderr = new StderrLog({ limits: options, redact: resolved.redact, emit, now });
    this.#stderr = stderr;
    return new StdioTransport({
      serverId,
      start: async () => {
        const { command, args, cwd } = stdio;
        const { sandbox } = this.#record;
        const running = await supervisor.start({ serverId, command, args, cwd, env: resolved.env, sandbox });
        this.#note = running.note;
        stderr.attach(running.child.stderr);
        return running;
      },
      parse: library.deserializeMessage,
      lost: (why) => this.#lost(`${why}${this.lastWords()}`),
      garbage: () => {
        const message = 'a line on stdout is no MCP message; servers must log to stderr';
        log({ level: 'warn', event: 'stdout_garbage', serverId, message });
      },
      maxMessageBytes: options.maxMessageBytes,
      maxGarbageLines: options.maxGarbageLines,
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
      `server "${serverId}" could not be connected: ${why}${this.#note}`,
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
