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
  /** Told of everything that a caller waits for. @default nobody is */
  readonly waiting?: Waiting;
}

export interface PoolStats {
  readonly servers: number;
  readonly connected: number;
  readonly subprocesses: number;
  readonly callsInFlight: number;
  readonly callsQueued: number;
}

/** What one run uses of a pool. */
export interface PoolOfRun
  extends Pick<McpPool, 'startCall' | 'describeCall' | 'listTools' | 'listResources' | 'listPrompts' | 'step'> {
  /** Ends the servers that it has for itself. */
  close(): void;
}

interface ListOptions {
  readonly signal?: AbortSignal;
}

const nothingStarted: CallHandle = { cancel: () => {} };

/** Long enough for every grace of a server that ends slowly. */
const CLOSE_TIMEOUT_MS = 8_000;

/**
 * The connections to MCP servers of this process, shared as their records say: by all guests, by those of a task, or by
 * nobody. It knows nothing of policy: whoever calls has asked before, and is asked again through `beforeDispatch`.
 */
export class McpPool {
  readonly #options: CompiledPoolOptions;
  readonly #deps: Required<PoolDeps>;
  readonly #supervisor: ProcessSupervisor;
  readonly #owners: ConnectionOwners;
  /** Removed servers and the revision of their last record, so that a caller with an old one does not bring it back. */
  readonly #removed = new Map<string, number>();
  /** Servers whose last tools/list failed, and why: outlives the connections of ended runs and tasks. */
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
    const newPlaces = () => new CallQueue({ capacity, maxQueued }, () => new McpBudgetError('', full));
    this.#owners = new ConnectionOwners(stateDir, newPlaces);
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

  /** Ends the servers that runs of this task share, and nobody else. */
  async endTask(task: string): Promise<void> {
    await this.#endOwner(taskKey(task), 'the last run of the task ended');
  }

  /** `user`: null is the node. @throws McpError */
  async listTools(record: McpServerRecord, options: ListOptions = {}, user: PoolUser | null = null): Promise<ToolList> {
    return this.#entry(record, user).listTools(options.signal ?? null);
  }

  /** What the server lists, whatever a guest may see of it. @throws McpError */
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
   * What a server says of one tool now, and the arguments as they would be sent, if it takes them: for whoever has to
   * decide about a call before it takes a place in any line.
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

  /** One line for each server, however many connections there are to it; also those that failed and have none. */
  health(): ServerHealth[] {
    return withFailures(healthByServer(this.#owners.entries()), this.#failed);
  }

  /** What a caller of this server waits for at the moment; null: for nothing. */
  step(record: McpServerRecord, user: PoolUser | null = null): ServerStep | null {
    return this.#owners.of(record.connection_scope, user).entries.get(record.server_id)?.step ?? null;
  }

  /** The last list of tools of each server that gave one. */
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

  /**
   * Follows the registry: only what changed is listed anew, only what is connected differently is connected anew, and
   * calls at a server that is gone are cancelled there.
   */
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

  /** Ends every server with all its descendants; what has not ended by itself in time is killed. */
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
      // A caller may still hold an older record than the registry has announced.
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

  /** Where all places for processes are taken, the server that was not used for longest gives up its own. */
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

/** Whose calls they are: the `connection_scope` of a record says with whom they share its connection. */
export interface PoolUser {
  /** No two tasks have the same. */
  readonly task: string;
  /** Where homes of this task's servers live on. */
  readonly stateDir: string;
  readonly run: string;
}

/** A node, a task or a run: nobody else uses these connections, nor the homes of their processes. */
export interface ConnectionOwner {
  readonly home: HomePlace;
  /** Places for calls in flight, at all servers together; a run has those of its task. */
  readonly places: CallQueue;
  readonly entries: Map<string, ServerEntry>;
}

/** The key of the owner; whoever uses the pool without a name is the node. */
function ownerKey(scope: ConnectionScope, user: PoolUser | null): string {
  if (user === null || scope === 'node') return 'node';
  return scope === 'task' ? taskKey(user.task) : runKey(user.run);
}

export const taskKey = (task: string) => `task ${task}`;
export const runKey = (run: string) => `run ${run}`;

/** All who own connections, by their keys. */
export class ConnectionOwners {
  readonly #stateDir: string;
  readonly #newPlaces: () => CallQueue;
  readonly #owners = new Map<string, ConnectionOwner>();

  /** `stateDir`: of servers that the whole node shares. */
  constructor(stateDir: string, newPlaces: () => CallQueue) {
    this.#stateDir = stateDir;
    this.#newPlaces = newPlaces;
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

  /** What it had; nobody finds it here any more. */
  take(key: string): ServerEntry[] {
    const owner = this.#owners.get(key);
    this.#owners.delete(key);
    return [...(owner?.entries.values() ?? [])];
  }

  /** Those of runs are the places of their tasks. */
  places(): Set<CallQueue> {
    return new Set(this.all().map(({ places }) => places));
  }

  #make(key: string, user: PoolUser | null): Omit<ConnectionOwner, 'entries'> {
    if (user === null || key === 'node') return { home: { stateDir: this.#stateDir }, places: this.#newPlaces() };
    if (key === taskKey(user.task)) return { home: { stateDir: user.stateDir }, places: this.#newPlaces() };
    return { home: { run: user.run }, places: this.of('task', user).places };
  }
}

/** A server as it was found where it was used last; what was got back counts wherever that was. */
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

/** Retains the error of a server until the server lists its tools again, also after its connection closed. */
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
