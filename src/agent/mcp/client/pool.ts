import { spawn as nodeSpawn } from 'node:child_process';
import { ignoreWaits, type Waiting } from '../../../base/listeners.ts';
import type { RegistryChange } from '../../../registry-client/snapshot.ts';
import { createHttpClient, type HttpClient } from '../../../server/egress/http-client.ts';
import type { ConnectionScope, McpServerRecord } from '../../../server/records/server.ts';
import type { SecretSource } from '../../../server/secrets/secret-file.ts';
import { CallQueue } from './call-queue.ts';
import { McpBudgetError, McpConnectionError } from './errors.ts';
import type { PromptList, ResourceList } from './lists.ts';
import { TokenCache } from './oauth/server-tokens.ts';
import { type ConnectLimits, openSession, type SessionEvents } from './open-session.ts';
import { type CompiledPoolOptions, compilePoolOptions, type PoolLog, type PoolOptions } from './pool-options.ts';
import type { HomePlace } from './process/directories.ts';
import type { Spawn } from './process/launch.ts';
import { ProcessSupervisor } from './process/supervisor.ts';
import { loadSchemaEngine, type SchemaEngine } from './schema/checks.ts';
import { SchemaThread } from './schema/schema-thread.ts';
import type { CallHandle, DescribedCall, PoolCall, ProposedCall } from './server-call.ts';
import { ServerEntry, type ServerHealth, type ServerStep } from './server-entry.ts';
import type { ServerSession } from './session.ts';
import type { ToolList } from './tool-list.ts';
import { convertError } from './tool-result.ts';

export interface PoolDeps {
  readonly secrets: SecretSource;
  readonly log?: PoolLog;
  readonly now?: () => number;
  /** In [0, 1). */
  readonly random?: () => number;
  readonly spawn?: Spawn;
  /** Receives what callers wait for. @default nothing is reported */
  readonly waiting?: Waiting;
}

export interface PoolStats {
  readonly servers: number;
  readonly connected: number;
  readonly subprocesses: number;
  readonly callsInFlight: number;
  readonly callsQueued: number;
}

/** The pool as one run uses it. */
export interface PoolOfRun
  extends Pick<McpPool, 'startCall' | 'describeCall' | 'listTools' | 'listResources' | 'listPrompts' | 'step'> {
  /** Stops the servers that only this run uses. */
  close(): void;
}

interface ListOptions {
  readonly signal?: AbortSignal;
}

const nothingStarted: CallHandle = { cancel: () => {} };

/** Longer than all graces of a server that ends slowly. */
const CLOSE_TIMEOUT_MS = 8_000;

/**
 * The connections of this process to MCP servers. `connection_scope` of a record says who shares one: all guests of the
 * node, the runs of a task, or a single run.
 *
 * Invariants
 * - One ServerEntry per server and owner; an entry exists from its first use until its owner ends or its record is deleted.
 * - A caller with an older record never replaces a newer one, and never revives a deleted server.
 * - The pool does not evaluate policy: callers do before the call and again in `beforeDispatch`.
 *
 * Ownership: the pool owns every connection and process below it and ends them in `close()`.
 * Not handled here: policy and approvals (agent/mcp/tool-calls.ts), the life of one connection (connection.ts).
 */
export class McpPool {
  readonly #options: CompiledPoolOptions;
  readonly #deps: Required<PoolDeps>;
  readonly #supervisor: ProcessSupervisor;
  readonly #owners: ConnectionOwners;
  /** Revisions of deleted servers: a caller with an older record must not revive one. */
  readonly #removed = new Map<string, number>();
  /** Errors of the last tools/list by server. Outlives the connections of ended runs and tasks. */
  readonly #failed = new Map<string, string>();
  readonly #ending = new Set<Promise<void>>();
  #http: Promise<HttpClient> | null = null;
  readonly #tokens: TokenCache;
  readonly #schemaThread: SchemaThread;
  #schemas: Promise<SchemaEngine> | null = null;
  #version = 0;
  #closing: Promise<void> | null = null;

  constructor(options: PoolOptions, deps: PoolDeps) {
    this.#options = compilePoolOptions(options);
    this.#deps = {
      secrets: deps.secrets,
      log: deps.log ?? (() => {}),
      waiting: deps.waiting ?? ignoreWaits,
      now: deps.now ?? (() => performance.now()),
      random: deps.random ?? Math.random,
      spawn: deps.spawn ?? nodeSpawn,
    };
    this.#tokens = new TokenCache(this.#options.loginsDir);
    this.#schemaThread = new SchemaThread({
      maxQueued: this.#options.maxWaitingChecks,
      idleMs: this.#options.idleTimeoutMs,
    });
    this.#supervisor = new ProcessSupervisor(this.#options, {
      ...this.#deps,
      closeIdle: () => this.#closeLongestIdle(),
    });
    const { stateDir, maxCallsInFlight: capacity, maxQueuedCalls: maxQueued } = this.#options;
    const full = 'the queue for calls to all servers is full (maxCallsInFlight, maxQueuedCalls)';
    const newSlots = () => new CallQueue({ capacity, maxQueued }, () => new McpBudgetError('', full));
    this.#owners = new ConnectionOwners(stateDir, newSlots);
  }

  /** The pool as one run of a task uses it. */
  forRun(user: PoolUser): PoolOfRun {
    let isClosed = false;
    const why = `run ${user.run} has ended`;
    const open = ({ server_id: id }: McpServerRecord): PoolUser => {
      if (isClosed) throw new McpConnectionError(id, 'closed', why);
      return user;
    };
    return {
      listTools: async (record, options) => this.listTools(record, options, open(record)),
      listResources: async (record, options) => this.listResources(record, options, open(record)),
      listPrompts: async (record, options) => this.listPrompts(record, options, open(record)),
      describeCall: async (record, call) => this.describeCall(record, call, open(record)),
      step: (record) => (isClosed ? null : this.step(record, user)),
      startCall: (record, call) => this.#startCall(record, call, () => open(record)),
      close: () => {
        isClosed = true;
        void this.#endOwner(runKey(user.run), why).then(() => this.#supervisor.removeRun(user.run));
      },
    };
  }

  /** Stops the servers that only runs of this task share. */
  async endTask(task: string): Promise<void> {
    await this.#endOwner(taskKey(task), 'the last run of the task ended');
  }

  /** `user`: null for the node. @throws McpError */
  async listTools(record: McpServerRecord, options: ListOptions = {}, user: PoolUser | null = null): Promise<ToolList> {
    return this.#entry(record, user).listTools(options.signal ?? null);
  }

  /** The unfiltered list of the server. @throws McpError */
  async listResources(
    record: McpServerRecord,
    options: ListOptions = {},
    user: PoolUser | null = null,
  ): Promise<ResourceList> {
    return this.#entry(record, user).listResources(options.signal ?? null);
  }

  /** @throws McpError */
  async listPrompts(
    record: McpServerRecord,
    options: ListOptions = {},
    user: PoolUser | null = null,
  ): Promise<PromptList> {
    return this.#entry(record, user).listPrompts(options.signal ?? null);
  }

  /**
   * The current definition of a tool and the final arguments, for an approval of the call before it enters a queue.
   * @throws McpError
   */
  async describeCall(
    record: McpServerRecord,
    call: ProposedCall,
    user: PoolUser | null = null,
  ): Promise<DescribedCall> {
    return this.#entry(record, user).describeCall(call);
  }

  /** Calls a tool at most once. A failure is an outcome, not an exception. */
  startCall(record: McpServerRecord, call: PoolCall): CallHandle {
    return this.#startCall(record, call, () => null);
  }

  #startCall(record: McpServerRecord, call: PoolCall, user: () => PoolUser | null): CallHandle {
    let entry: ServerEntry;
    try {
      entry = this.#entry(record, user());
    } catch (error) {
      call.finished(convertError(error, record.budgets.max_tool_output_bytes));
      return nothingStarted;
    }
    return entry.startCall(call);
  }

  /** Health per server, merged over its connections; includes servers that failed and have no connection. */
  health(): ServerHealth[] {
    return withFailures(healthByServer(this.#owners.entries()), this.#failed);
  }

  /** What callers of this server wait for; null: nothing. */
  step(record: McpServerRecord, user: PoolUser | null = null): ServerStep | null {
    return this.#owners.of(record.connection_scope, user).entries.get(record.server_id)?.step ?? null;
  }

  /** The last tool list of each server. */
  listed(): ToolList[] {
    const last = new Map<string, ToolList>();
    for (const { tools } of this.#owners.entries()) {
      const list = tools.last?.list;
      if (list === undefined) continue;
      if ((last.get(list.serverId)?.version ?? 0) < list.version) last.set(list.serverId, list);
    }
    return [...last.values()];
  }

  stats(): PoolStats {
    const entries = this.#owners.entries();
    const places = this.#owners.places();
    const sum = (numbers: Iterable<number>) => [...numbers].reduce((all, one) => all + one, 0);
    return {
      servers: entries.length,
      connected: entries.filter((entry) => entry.connection.health.state === 'connected').length,
      subprocesses: this.#supervisor.count,
      callsInFlight: sum([...places].map(({ running }) => running)),
      callsQueued: sum([...places, ...entries.map(({ queue }) => queue)].map(({ queued }) => queued)),
    };
  }

  /** Applies a registry change: lists and reconnects only changed servers, and cancels the calls of deleted ones. */
  applyChange(change: RegistryChange): void {
    const owners = this.#owners.all();
    for (const id of change.deleted) {
      const entries = owners.flatMap((owner) => owner.entries.get(id) ?? []);
      this.#removed.set(id, Math.max(0, ...entries.map(({ record }) => record.mod_revision)));
      this.#tokens.delete(id);
      this.#failed.delete(id);
      for (const { entries: all } of owners) all.delete(id);
      for (const entry of entries) this.#end(entry, `server "${id}" was removed from the registry`);
    }
    for (const id of change.upserted) {
      this.#removed.delete(id);
      const record = change.snapshot.records.get(id);
      if (record !== undefined) for (const { entries } of owners) entries.get(id)?.setRecord(record);
    }
  }

  /** Stops every server with all its descendants; processes that outlive the timeout are killed. */
  close(timeoutMs = CLOSE_TIMEOUT_MS): Promise<void> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    for (const key of this.#owners.keys()) void this.#endOwner(key, 'the pool is closing');
    const timer = setTimeout(() => this.#supervisor.killAll(), timeoutMs);
    await Promise.all(this.#ending);
    await this.#supervisor.close();
    clearTimeout(timer);
    await this.#schemaThread.close();
    await (await this.#http)?.close();
  }

  #entry(record: McpServerRecord, user: PoolUser | null): ServerEntry {
    const id = record.server_id;
    if (this.#closing !== null) throw new McpConnectionError(id, 'closed', 'the pool is closed');
    const { home, places, entries } = this.#owners.of(record.connection_scope, user);
    const existing = entries.get(id);
    if (existing !== undefined) {
      // The caller may hold an older record than this entry.
      if (record.mod_revision >= existing.record.mod_revision) existing.setRecord(record);
      return existing;
    }
    const removedAt = this.#removed.get(id);
    if (removedAt !== undefined && record.mod_revision <= removedAt) {
      throw new McpConnectionError(id, 'closed', `server "${id}" was removed from the registry`);
    }
    const entry = new ServerEntry(record, {
      ...this.#deps,
      limits: this.#options,
      places,
      schemas: () => this.#loadSchemas(),
      listed: (serverId, error) => {
        if (error === null) this.#failed.delete(serverId);
        else if (!this.#removed.has(serverId)) this.#failed.set(serverId, error);
      },
      nextVersion: () => {
        this.#version += 1;
        return this.#version;
      },
      open: (wanted, events, limits) => this.#open(wanted, events, limits, home),
    });
    entries.set(id, entry);
    return entry;
  }

  async #endOwner(key: string, why: string): Promise<void> {
    await Promise.all(this.#owners.take(key).map((entry) => this.#end(entry, why)));
  }

  #end(entry: ServerEntry, why: string): Promise<void> {
    entry.cancelCalls(why);
    const ended = entry.connection.close().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    return ended;
  }

  #open(
    record: McpServerRecord,
    events: SessionEvents,
    limits: ConnectLimits,
    home: HomePlace,
  ): Promise<ServerSession> {
    return openSession(record, events, limits, {
      ...this.#deps,
      home,
      options: this.#options,
      supervisor: this.#supervisor,
      http: () => this.#httpClient(),
      tokens: this.#tokens,
    });
  }

  /** When all process slots are in use, the least recently used idle server is stopped. */
  #closeLongestIdle(): Promise<void> | null {
    let longest: ServerEntry | null = null;
    for (const entry of this.#owners.entries()) {
      if (entry.record.transport !== 'stdio' || !entry.connection.idle) continue;
      if (longest === null || entry.lastUsedMs < longest.lastUsedMs) longest = entry;
    }
    return longest?.connection.closeIdle() ?? null;
  }

  #httpClient(): Promise<HttpClient> {
    this.#http ??= createHttpClient(this.#options.egress);
    return this.#http;
  }

  #loadSchemas(): Promise<SchemaEngine> {
    this.#schemas ??= loadSchemaEngine(this.#schemaThread, this.#options);
    return this.#schemas;
  }
}

/** The run that makes a call; `connection_scope` of the record says with whom it shares the connection. */
export interface PoolUser {
  /** Unique per task. */
  readonly task: string;
  /** Directory of the homes of this task's servers. */
  readonly stateDir: string;
  readonly run: string;
}

/** A node, a task or a run, with connections and process homes of its own. */
export interface ConnectionOwner {
  readonly home: HomePlace;
  /** Slots for calls in flight at all servers together; a run shares those of its task. */
  readonly places: CallQueue;
  readonly entries: Map<string, ServerEntry>;
}

/** Without a user the owner is the node. */
function ownerKey(scope: ConnectionScope, user: PoolUser | null): string {
  if (user === null || scope === 'node') return 'node';
  return scope === 'task' ? taskKey(user.task) : runKey(user.run);
}

export const taskKey = (task: string) => `task ${task}`;
export const runKey = (run: string) => `run ${run}`;

/** Connection owners by key. */
export class ConnectionOwners {
  readonly #stateDir: string;
  readonly #newSlots: () => CallQueue;
  readonly #owners = new Map<string, ConnectionOwner>();

  /** `stateDir`: for servers that the whole node shares. */
  constructor(stateDir: string, newSlots: () => CallQueue) {
    this.#stateDir = stateDir;
    this.#newSlots = newSlots;
  }

  of(scope: ConnectionScope, user: PoolUser | null): ConnectionOwner {
    const key = ownerKey(scope, user);
    const known = this.#owners.get(key);
    if (known !== undefined) return known;
    const made = { ...this.#make(key, user), entries: new Map<string, ServerEntry>() };
    this.#owners.set(key, made);
    return made;
  }

  all(): ConnectionOwner[] {
    return [...this.#owners.values()];
  }

  keys(): string[] {
    return [...this.#owners.keys()];
  }

  entries(): ServerEntry[] {
    return this.all().flatMap(({ entries }) => [...entries.values()]);
  }

  /** Removes the owner and returns its entries. */
  take(key: string): ServerEntry[] {
    const owner = this.#owners.get(key);
    this.#owners.delete(key);
    return [...(owner?.entries.values() ?? [])];
  }

  /** Distinct slot queues; runs share those of their tasks. */
  places(): Set<CallQueue> {
    return new Set(this.all().map(({ places }) => places));
  }

  #make(key: string, user: PoolUser | null): Omit<ConnectionOwner, 'entries'> {
    if (user === null || key === 'node') return { home: { stateDir: this.#stateDir }, places: this.#newSlots() };
    if (key === taskKey(user.task)) return { home: { stateDir: user.stateDir }, places: this.#newSlots() };
    return { home: { run: user.run }, places: this.of('task', user).places };
  }
}

/** Health of each server at its most recently used connection; reconnects are summed over all. */
export function healthByServer(entries: Iterable<ServerEntry>): ServerHealth[] {
  const last = new Map<string, { readonly entry: ServerEntry; readonly reconnects: number }>();
  for (const entry of entries) {
    const { serverId, reconnects } = entry.health;
    const known = last.get(serverId);
    const latest = known === undefined || entry.lastUsedMs >= known.entry.lastUsedMs ? entry : known.entry;
    last.set(serverId, { entry: latest, reconnects: reconnects + (known?.reconnects ?? 0) });
  }
  return [...last.values()].map(({ entry, reconnects }) => ({ ...entry.health, reconnects }));
}

/** Adds the last tools/list error of each server, which is retained until the server lists its tools again. */
export function withFailures(health: readonly ServerHealth[], failed: ReadonlyMap<string, string>): ServerHealth[] {
  const without = { state: 'down', reconnects: 0, connectedAtMs: null, toolCount: null, latencyMs: null } as const;
  const known = health.map((server) => {
    const lastError = failed.get(server.serverId);
    if (lastError === undefined) return server;
    return { ...server, lastError, state: server.state === 'connected' ? ('degraded' as const) : server.state };
  });
  const ids = new Set(health.map(({ serverId }) => serverId));
  const gone = [...failed].filter(([serverId]) => !ids.has(serverId));
  return [...known, ...gone.map(([serverId, lastError]) => ({ ...without, serverId, lastError }))];
}
