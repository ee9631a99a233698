import { spawn as nodeSpawn } from 'node:child_process';
import { untold, type Waiting } from '../base/waiting.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { RegistryChange } from '../registry/snapshot.ts';
import type { SecretSource } from '../secrets/secret-source.ts';
import { CallQueue } from './call-queue.ts';
import { McpBudgetError, McpConnectionError } from './errors.ts';
import { createHttpClient, type HttpClient } from './http-client.ts';
import { KeptTokens } from './oauth/kept-tokens.ts';
import type { PromptList, ResourceList } from './offers.ts';
import { type ConnectLimits, openSession, type SessionEvents } from './open-session.ts';
import type { DescribedCall, ProposedCall, StartedCall, ToldCall } from './pool-call.ts';
import type { PoolLog } from './pool-log.ts';
import { type CompiledPoolOptions, compilePoolOptions, type PoolOptions } from './pool-options.ts';
import type { Spawn } from './process/spawn.ts';
import { ProcessSupervisor } from './process/supervisor.ts';
import { loadSchemaEngine, type SchemaEngine } from './schema/checks.ts';
import { SchemaThread } from './schema/schema-thread.ts';
import { ServerEntry, type ServerHealth } from './server-entry.ts';
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

const nothingStarted: StartedCall = { cancel: () => {} };

/** Long enough for every grace of a server that ends slowly. */
const CLOSE_TIMEOUT_MS = 8_000;

/**
 * The connections to MCP servers of this process, shared by all guests. It knows nothing of policy: whoever calls has
 * asked before, and is asked again through `beforeDispatch`.
 */
export class McpPool {
  readonly #options: CompiledPoolOptions;
  readonly #deps: Required<PoolDeps>;
  readonly #supervisor: ProcessSupervisor;
  readonly #places: CallQueue;
  readonly #entries = new Map<string, ServerEntry>();
  /** Removed servers and the revision of their last record, so that a caller with an old one does not bring it back. */
  readonly #removed = new Map<string, number>();
  readonly #ending = new Set<Promise<void>>();
  #http: Promise<HttpClient> | null = null;
  readonly #tokens: KeptTokens;
  readonly #schemaThread: SchemaThread;
  #schemas: Promise<SchemaEngine> | null = null;
  #version = 0;
  #closing: Promise<void> | null = null;

  constructor(options: PoolOptions, deps: PoolDeps) {
    this.#options = compilePoolOptions(options);
    this.#deps = {
      secrets: deps.secrets,
      log: deps.log ?? (() => {}),
      waiting: deps.waiting ?? untold,
      now: deps.now ?? (() => performance.now()),
      random: deps.random ?? Math.random,
      spawn: deps.spawn ?? nodeSpawn,
    };
    this.#tokens = new KeptTokens(this.#options.loginsDir);
    this.#schemaThread = new SchemaThread({
      maxWaiting: this.#options.maxWaitingChecks,
      idleMs: this.#options.idleTimeoutMs,
    });
    this.#supervisor = new ProcessSupervisor(this.#options, { ...this.#deps, giveWay: () => this.#closeLongestIdle() });
    this.#places = new CallQueue(
      { capacity: this.#options.maxCallsInFlight, maxQueued: this.#options.maxQueuedCalls },
      () => new McpBudgetError('', 'too many calls wait for a place at any server (maxCallsInFlight, maxQueuedCalls)'),
    );
  }

  /** @throws McpError */
  async listTools(record: McpServerRecord, options: { signal?: AbortSignal } = {}): Promise<ToolList> {
    return this.#entry(record).listTools(options.signal ?? null);
  }

  /** What the server lists, whatever a guest may see of it. @throws McpError */
  async listResources(record: McpServerRecord, options: { signal?: AbortSignal } = {}): Promise<ResourceList> {
    return this.#entry(record).listResources(options.signal ?? null);
  }

  /** @throws McpError */
  async listPrompts(record: McpServerRecord, options: { signal?: AbortSignal } = {}): Promise<PromptList> {
    return this.#entry(record).listPrompts(options.signal ?? null);
  }

  /**
   * What a server says of one tool now, and the arguments as they would be sent, if it takes them: for whoever has to
   * decide about a call before it takes a place in any line.
   * @throws McpError
   */
  async describeCall(record: McpServerRecord, call: ProposedCall): Promise<DescribedCall> {
    return this.#entry(record).describeCall(call);
  }

  /** Calls a tool at most once. A failure is an outcome, not an exception. */
  startCall(record: McpServerRecord, call: ToldCall): StartedCall {
    let entry: ServerEntry;
    try {
      entry = this.#entry(record);
    } catch (error) {
      call.finished(convertError(error, record.budgets.max_tool_output_bytes));
      return nothingStarted;
    }
    return entry.startCall(call);
  }

  health(): ServerHealth[] {
    return [...this.#entries.values()].map((entry) => entry.health);
  }

  /** The last list of tools of each server that gave one. */
  listed(): ToolList[] {
    return [...this.#entries.values()].flatMap(({ tools }) => tools.last?.list ?? []);
  }

  stats(): PoolStats {
    const entries = [...this.#entries.values()];
    return {
      servers: entries.length,
      connected: entries.filter((entry) => entry.connection.health.state === 'connected').length,
      subprocesses: this.#supervisor.count,
      callsInFlight: this.#places.running,
      callsQueued: entries.reduce((sum, { queue }) => sum + queue.queued, this.#places.queued),
    };
  }

  /**
   * Follows the registry: only what changed is listed anew, only what is connected differently is connected anew, and
   * calls at a server that is gone are cancelled there.
   */
  applyChange(change: RegistryChange): void {
    for (const id of change.deleted) {
      const entry = this.#entries.get(id);
      this.#removed.set(id, entry?.record.mod_revision ?? 0);
      this.#tokens.forget(id);
      if (entry === undefined) continue;
      this.#entries.delete(id);
      this.#end(entry, `server "${id}" was removed from the registry`);
    }
    for (const id of change.upserted) {
      this.#removed.delete(id);
      const record = change.snapshot.records.get(id);
      if (record !== undefined) this.#entries.get(id)?.setRecord(record);
    }
  }

  /** Ends every server with all its descendants; what has not ended by itself in time is killed. */
  close(timeoutMs = CLOSE_TIMEOUT_MS): Promise<void> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    for (const entry of this.#entries.values()) this.#end(entry, 'the pool is closing');
    this.#entries.clear();
    const timer = setTimeout(() => this.#supervisor.killAll(), timeoutMs);
    await Promise.all(this.#ending);
    await this.#supervisor.close();
    clearTimeout(timer);
    await this.#schemaThread.close();
    await (await this.#http)?.close();
  }

  #entry(record: McpServerRecord): ServerEntry {
    const id = record.server_id;
    if (this.#closing !== null) throw new McpConnectionError(id, 'closed', 'the pool is closed');
    const existing = this.#entries.get(id);
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
      places: this.#places,
      schemas: () => this.#loadSchemas(),
      nextVersion: () => {
        this.#version += 1;
        return this.#version;
      },
      open: (wanted, events, limits) => this.#open(wanted, events, limits),
    });
    this.#entries.set(id, entry);
    return entry;
  }

  #end(entry: ServerEntry, why: string): void {
    entry.cancelCalls(why);
    const ended = entry.connection.close().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  #open(record: McpServerRecord, events: SessionEvents, limits: ConnectLimits): Promise<ServerSession> {
    return openSession(record, events, limits, {
      ...this.#deps,
      options: this.#options,
      supervisor: this.#supervisor,
      http: () => this.#httpClient(),
      tokens: this.#tokens,
    });
  }

  /** Where all places for processes are taken, the server that was not used for longest gives up its own. */
  #closeLongestIdle(): Promise<void> | null {
    let longest: ServerEntry | null = null;
    for (const entry of this.#entries.values()) {
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
