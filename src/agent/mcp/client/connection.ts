import { setTimeout as delay } from 'node:timers/promises';
import { untilAborted } from '../../../base/abort.ts';
import { backoffMs } from '../../../base/timing.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import { sameConnection } from '../../../server/records/record-kind.ts';
import type { McpServerRecord } from '../../../server/records/server.ts';
import { McpBudgetError, McpConnectionError, McpError, toToolError } from './errors.ts';
import type { ConnectLimits, EraMemory, SessionEvents } from './open-session.ts';
import type { PoolLimits, PoolLog } from './pool-options.ts';
import { abortReason, type ServerSession } from './session.ts';

export interface ConnectionHealth {
  /**
   * `idle`: not connected, and nothing is wrong. `degraded`: lost, and to be connected again when next needed.
   * `down`: the last attempt to connect failed.
   */
  readonly state: 'idle' | 'connected' | 'degraded' | 'down';
  /** Text of the last failure, as a model would read it; null since the connection was made again. */
  readonly lastError: string | null;
  /** How often a lost connection was got back. */
  readonly reconnects: number;
  readonly connectedAtMs: number | null;
}

export interface ConnectionDeps {
  readonly limits: PoolLimits;
  open(record: McpServerRecord, events: SessionEvents, limits: ConnectLimits): Promise<ServerSession>;
  /** The server may have others than before; null: of every kind. */
  listChanged(kind: CallKind | null): void;
  readonly log: PoolLog;
  readonly now: () => number;
  /** In [0, 1). */
  readonly random: () => number;
}

const MAX_LEASE_ROUNDS = 3;

/**
 * The connection to one server over its whole life: made when first needed, closed when idle, made again after a loss.
 * It never repeats a request; whoever lost one is told.
 */
export class ServerConnection {
  readonly #deps: ConnectionDeps;
  #record: McpServerRecord;
  #session: ServerSession | null = null;
  readonly #old = new Set<ServerSession>();
  #connecting: { readonly result: Promise<ServerSession>; readonly abort: AbortController } | null = null;
  #failure: { error: McpError; untilMs: number } | null = null;
  #wasLost = false;
  #lastError: string | null = null;
  #reconnects = 0;
  #connectedAtMs: number | null = null;
  #idleTimer: NodeJS.Timeout | null = null;
  #era: EraMemory = { bearsAsking: null };
  readonly #closed = new AbortController();

  constructor(record: McpServerRecord, deps: ConnectionDeps) {
    this.#record = record;
    this.#deps = deps;
  }

  get health(): ConnectionHealth {
    return {
      state: this.#state(),
      lastError: this.#lastError,
      reconnects: this.#reconnects,
      connectedAtMs: this.#session === null ? null : this.#connectedAtMs,
    };
  }

  /** Connected and used by nobody. */
  get idle(): boolean {
    return this.#session !== null && this.#session.leases === 0;
  }

  /** What was connected by another description is used no more; requests in flight finish there. */
  setRecord(record: McpServerRecord): void {
    const same = sameConnection(this.#record, record);
    this.#record = record;
    if (same) return;
    this.#era = { bearsAsking: null };
    this.#failure = null;
    this.#connecting?.abort.abort();
    this.#connecting = null;
    this.#retire();
    this.#wasLost = false;
  }

  /** The session that is open now, held for the caller; null: it takes a {@link lease}. */
  hold(): ServerSession | null {
    const session = this.#session;
    if (session === null || !session.usable) return null;
    session.hold();
    return session;
  }

  /** The same for whoever can wait. Several callers share one attempt; the abort of one does not end it. */
  async lease(signal: AbortSignal | null): Promise<ServerSession> {
    const serverId = this.#record.server_id;
    for (let round = 0; round < MAX_LEASE_ROUNDS; round++) {
      const record = this.#record;
      try {
        if (this.#session === null) await this.#connected(serverId, signal);
      } catch (error) {
        if (this.#closed.signal.aborted || sameConnection(this.#record, record)) throw error;
        continue;
      }
      // It may have been lost or replaced between the handshake and this turn.
      const session = this.hold();
      if (session !== null) return session;
    }
    throw new McpConnectionError(
      serverId,
      'lost',
      `server "${serverId}" closes every connection immediately after it is established`,
    );
  }

  /** Closes an unused connection and waits until its server is gone. */
  async closeIdle(): Promise<void> {
    const session = this.#session;
    if (session === null || session.leases > 0) return;
    this.#forget(session);
    await session.close();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#connecting?.abort.abort();
    this.#stopIdleTimer();
    const open = [...this.#old, ...(this.#session === null ? [] : [this.#session])];
    this.#session = null;
    await Promise.all(open.map((session) => session.close()));
  }

  #state(): ConnectionHealth['state'] {
    if (this.#session !== null) return 'connected';
    if (this.#failure !== null) return 'down';
    return this.#wasLost ? 'degraded' : 'idle';
  }

  #connected(serverId: string, signal: AbortSignal | null): Promise<ServerSession> {
    if (this.#closed.signal.aborted) return Promise.reject(closedError(serverId));
    if (this.#failure !== null && this.#connecting === null && this.#deps.now() < this.#failure.untilMs) {
      return Promise.reject(this.#failure.error);
    }
    const { result } = this.#connecting ?? this.#startConnecting();
    return untilAborted(result, signal, () => {
      throw abortReason(serverId, signal as AbortSignal);
    });
  }

  #startConnecting(): { readonly result: Promise<ServerSession>; readonly abort: AbortController } {
    const abort = new AbortController();
    const result = this.#connect(abort.signal).finally(() => {
      if (this.#connecting === connecting) this.#connecting = null;
    });
    const connecting = { result, abort };
    this.#connecting = connecting;
    return connecting;
  }

  /** All attempts together have the time that the record gives for connecting. */
  async #connect(signal: AbortSignal): Promise<ServerSession> {
    const record = this.#record;
    const end = performance.now() + record.budgets.connect_timeout_ms;
    const tries = this.#wasLost ? this.#deps.limits.reconnectTries : 1;
    for (let attempt = 1; ; attempt++) {
      try {
        const timeoutMs = Math.max(1, Math.ceil(end - performance.now()));
        return this.#adopt(
          record,
          await this.#deps.open(record, this.#events(), { timeoutMs, signal, era: this.#era }),
        );
      } catch (error) {
        if (signal.aborted) throw closedError(record.server_id);
        const hopeless = !(error instanceof McpError) || !error.retryable || error instanceof McpBudgetError;
        if (hopeless || attempt >= tries || performance.now() >= end) throw this.#failed(record, error);
        await this.#pause(attempt, signal);
      }
    }
  }

  #adopt(record: McpServerRecord, session: ServerSession): ServerSession {
    if (this.#closed.signal.aborted || !sameConnection(this.#record, record)) {
      void session.close();
      throw closedError(record.server_id);
    }
    if (this.#wasLost) this.#reconnects += 1;
    this.#session = session;
    this.#failure = null;
    this.#lastError = null;
    this.#wasLost = false;
    this.#connectedAtMs = this.#deps.now();
    session.onIdle = () => {
      if (this.#session === session) this.#startIdleTimer();
    };
    session.onTrouble = () => this.#replace(session);
    this.#startIdleTimer();
    this.#deps.listChanged(null);
    const { protocolVersion } = session;
    const { server_id: serverId, transport } = record;
    this.#deps.log({ level: 'info', event: 'connected', serverId, message: transport, protocolVersion });
    return session;
  }

  #events(): SessionEvents {
    return {
      lost: (session, why) => {
        session.markLost(why);
        if (this.#session !== session) return;
        this.#session = null;
        this.#wasLost = true;
        this.#lastError = session.redact(why);
        const serverId = session.serverId;
        this.#deps.log({ level: 'warn', event: 'connection_lost', serverId, message: this.#lastError });
      },
      suspect: (session) => this.#replace(session),
      listChanged: (kind) => this.#deps.listChanged(kind),
    };
  }

  #replace(session: ServerSession): void {
    if (this.#session !== session) return;
    this.#wasLost = true;
    this.#retire();
  }

  #retire(): void {
    const session = this.#session;
    if (session === null) return;
    this.#forget(session);
    this.#old.add(session);
    void session.retire().then(() => this.#old.delete(session));
  }

  #forget(session: ServerSession): void {
    this.#stopIdleTimer();
    if (this.#session === session) this.#session = null;
  }

  #failed(record: McpServerRecord, error: unknown): unknown {
    // Too many processes says nothing about this server.
    if (!(error instanceof McpError) || error instanceof McpBudgetError) return error;
    if (!sameConnection(this.#record, record)) return error;
    this.#failure = { error, untilMs: this.#deps.now() + this.#deps.limits.failureTtlMs };
    this.#lastError = toToolError(error).message;
    this.#deps.log({ level: 'warn', event: 'connect_failed', serverId: record.server_id, message: this.#lastError });
    return error;
  }

  async #pause(attempt: number, signal: AbortSignal): Promise<void> {
    const { reconnectBaseMs, reconnectMaxMs } = this.#deps.limits;
    const backoff = { firstMs: reconnectBaseMs, maxMs: reconnectMaxMs };
    await delay(backoffMs(backoff, attempt, this.#deps), undefined, { signal }).catch(() => {});
  }

  /** One timer for the life of a session: each time nobody uses it, it starts over. */
  #startIdleTimer(): void {
    if (this.#idleTimer !== null) {
      this.#idleTimer.refresh();
      return;
    }
    this.#idleTimer = setTimeout(() => {
      const serverId = this.#record.server_id;
      if (!this.idle) return;
      this.#deps.log({ level: 'debug', event: 'idle_closed', serverId, message: 'the connection was idle' });
      void this.closeIdle();
    }, this.#deps.limits.idleTimeoutMs);
    this.#idleTimer.unref();
  }

  #stopIdleTimer(): void {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }
}

function closedError(serverId: string): McpConnectionError {
  return new McpConnectionError(serverId, 'closed', `server "${serverId}" was removed or its connection was closed`);
}
