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
   * `idle`: not connected, without a failure. `degraded`: lost; the next use reconnects. `down`: the last attempt to
   * connect failed.
   */
  readonly state: 'idle' | 'connected' | 'degraded' | 'down';
  /** Text of the last failure for a model; null after a successful connect. */
  readonly lastError: string | null;
  /** Number of successful reconnects after a loss. */
  readonly reconnects: number;
  readonly connectedAtMs: number | null;
}

export interface ConnectionDeps {
  readonly limits: PoolLimits;
  open(record: McpServerRecord, events: SessionEvents, limits: ConnectLimits): Promise<ServerSession>;
  /** The server's list may have changed; null: all lists. */
  listChanged(kind: CallKind | null): void;
  readonly log: PoolLog;
  readonly now: () => number;
  /** In [0, 1). */
  readonly random: () => number;
}

const MAX_LEASE_ROUNDS = 3;

/**
 * The connection to one server: opened on first use, closed when idle, reopened after a loss.
 *
 * Invariants
 * - At most one session accepts new requests; retired sessions finish their leases and close.
 * - Concurrent callers share one connect attempt; aborting one caller does not end it.
 * - A request is never repeated here: requests of a lost session fail.
 * - After a failure, connects are refused for `failureTtlMs`.
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
  #era: EraMemory = { answersProbe: null };
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

  /** Connected and without leases. */
  get idle(): boolean {
    return this.#session !== null && this.#session.leases === 0;
  }

  /** Retires a session that was opened with other connection settings; its requests in flight finish. */
  setRecord(record: McpServerRecord): void {
    const same = sameConnection(this.#record, record);
    this.#record = record;
    if (same) return;
    this.#era = { answersProbe: null };
    this.#failure = null;
    this.#connecting?.abort.abort();
    this.#connecting = null;
    this.#retire();
    this.#wasLost = false;
  }

  /** Leases the open session synchronously; null: use {@link lease}. */
  hold(): ServerSession | null {
    const session = this.#session;
    if (session === null || !session.usable) return null;
    session.hold();
    return session;
  }

  /** Leases a session, connecting if necessary. */
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
      // The session may have been lost or replaced since the handshake.
      const session = this.hold();
      if (session !== null) return session;
    }
    throw new McpConnectionError(
      serverId,
      'lost',
      `server "${serverId}" closes every connection immediately after it is established`,
    );
  }

  /** Closes an unused connection and waits until its server has ended. */
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

  /** All attempts together have `connect_timeout_ms`. */
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
        const isFinal = !(error instanceof McpError) || !error.retryable || error instanceof McpBudgetError;
        if (isFinal || attempt >= tries || performance.now() >= end) throw this.#failed(record, error);
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
    // A full host says nothing about this server.
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

  /** One timer per session, restarted whenever the last lease is released. */
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
