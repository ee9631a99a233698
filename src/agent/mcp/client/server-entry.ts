import { type Wait, type Waiting, whileWaiting } from '../../../base/listeners.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../../server/records/server.ts';
import { pinProblem } from '../../policy/record-checks.ts';
import { CallQueue } from './call-queue.ts';
import { type ConnectionHealth, ServerConnection } from './connection.ts';
import { McpBudgetError, McpCancelledError, McpConnectionError, toToolError } from './errors.ts';
import {
  checkOfferArguments,
  describeOffer,
  ListCache,
  type ListCacheDeps,
  listPrompts,
  listResources,
  listTools,
  type PromptList,
  type RawListing,
  type ResourceList,
} from './lists.ts';
import type { ConnectLimits, SessionEvents } from './open-session.ts';
import type { PoolLimits, PoolLog } from './pool-options.ts';
import { type SchemaEngine, SchemaStrikes } from './schema/checks.ts';
import {
  type CallHandle,
  type CallSite,
  connectWait,
  type DescribedCall,
  listWait,
  type PoolCall,
  type ProposedCall,
  ServerCall,
} from './server-call.ts';
import type { ServerSession } from './session.ts';
import { type CompiledToolList, compileToolList, ToolChecks, type ToolList } from './tool-list.ts';

export interface ServerHealth extends ConnectionHealth {
  readonly serverId: string;
  readonly toolCount: number | null;
  /** Smoothed response time of calls; null: no call was answered. */
  readonly latencyMs: number | null;
}

/** What callers of a server wait for. */
export interface ServerStep {
  readonly what: 'start' | 'connect' | 'tools/list' | 'resources/list' | 'prompts/list';
  /** By the pool's clock. */
  readonly sinceMs: number;
  readonly atMostMs: number;
}

export interface ServerEntryDeps {
  readonly limits: PoolLimits;
  /** Slots for calls in flight, shared by all servers. */
  readonly places: CallQueue;
  readonly schemas: () => Promise<SchemaEngine>;
  readonly nextVersion: () => number;
  /** A tools/list ended. `error`, for users: it failed, or the tools differ from the pinned ones. */
  listed(serverId: string, error: string | null): void;
  open(record: McpServerRecord, events: SessionEvents, limits: ConnectLimits): Promise<ServerSession>;
  readonly log: PoolLog;
  readonly waiting: Waiting;
  readonly now: () => number;
  readonly random: () => number;
}

/** Weight of a new answer time in the smoothed latency. */
const LATENCY_WEIGHT = 1 / 8;

/**
 * State of one server for one owner: connection, lists, call queue and calls in flight.
 *
 * Ownership: the pool creates and removes entries. An entry owns its connection; the lists and calls lease sessions from it.
 * A new record keeps the entry and invalidates the lists; the connection decides whether it has to be replaced.
 */
export class ServerEntry implements CallSite {
  readonly connection: ServerConnection;
  readonly queue: CallQueue;
  readonly tools: ListCache<RawListing, CompiledToolList>;
  readonly #resources: ListCache<ResourceList, ResourceList>;
  readonly #prompts: ListCache<PromptList, PromptList>;
  readonly checks: ToolChecks;
  readonly calls = new Set<CallHandle>();
  readonly places: CallQueue;
  readonly limits: PoolLimits;
  readonly waiting: Waiting;
  lastUsedMs: number;
  readonly #deps: ServerEntryDeps;
  readonly #strikes = new SchemaStrikes();
  #record: McpServerRecord;
  #step: ServerStep | null = null;
  #latencyMs: number | null = null;

  constructor(record: McpServerRecord, deps: ServerEntryDeps) {
    this.#record = record;
    this.#deps = deps;
    ({ places: this.places, limits: this.limits, waiting: this.waiting } = deps);
    this.lastUsedMs = deps.now();
    const serverId = record.server_id;
    this.queue = new CallQueue(
      { capacity: record.budgets.max_concurrency, maxQueued: deps.limits.maxQueuedCalls },
      () => new McpBudgetError(serverId, `the call queue of server "${serverId}" is full (maxQueuedCalls)`),
    );
    this.connection = new ServerConnection(record, {
      ...deps,
      open: (wanted, events, limits) =>
        this.#during(
          wanted.stdio === null ? 'connect' : 'start',
          connectWait(wanted, limits.timeoutMs),
          deps.open(wanted, events, limits),
        ),
      listChanged: (kind) => this.#invalidate(kind),
    });
    this.checks = new ToolChecks({
      record: () => this.#record,
      unchecked: (message) => this.#warn('schema_unchecked', message),
    });
    this.tools = this.#cache('tool', listTools, (listing, before) => this.#compile(listing, before));
    this.#resources = this.#cache('resource', listResources, async (listing) => listing);
    this.#prompts = this.#cache('prompt', listPrompts, async (listing) => listing);
  }

  get record(): McpServerRecord {
    return this.#record;
  }

  get health(): ServerHealth {
    return {
      serverId: this.#record.server_id,
      ...this.connection.health,
      toolCount: this.tools.last?.list.tools.length ?? null,
      latencyMs: this.#latencyMs,
    };
  }

  /** Null: nothing to wait for. */
  get step(): ServerStep | null {
    return this.#step;
  }

  setRecord(record: McpServerRecord): void {
    if (record === this.#record) return;
    this.#record = record;
    this.queue.setCapacity(record.budgets.max_concurrency);
    this.#invalidate(null);
    this.connection.setRecord(record);
  }

  async listTools(signal: AbortSignal | null): Promise<ToolList> {
    this.lastUsedMs = this.#deps.now();
    return (await this.tools.get(signal)).list;
  }

  async listResources(signal: AbortSignal | null): Promise<ResourceList> {
    this.lastUsedMs = this.#deps.now();
    return this.#resources.get(signal);
  }

  async listPrompts(signal: AbortSignal | null): Promise<PromptList> {
    this.lastUsedMs = this.#deps.now();
    return this.#prompts.get(signal);
  }

  /** The tool as listed now and the final arguments. @throws McpError if the tool does not accept them */
  async describeCall({ kind, tool, args, signal }: ProposedCall): Promise<DescribedCall> {
    this.lastUsedMs = this.#deps.now();
    if (kind !== undefined && kind !== 'tool') {
      checkOfferArguments(this.#record.server_id, tool, args);
      return { tool: describeOffer(tool), args };
    }
    const found = this.checks.find(tool, await this.tools.get(signal ?? null));
    const prepared = found.input.prepared(args);
    await this.checks.arguments(found, prepared);
    return { tool: found.tool, args: prepared };
  }

  startCall(call: PoolCall): CallHandle {
    this.lastUsedMs = this.#deps.now();
    const started = new ServerCall(call, this);
    started.start();
    return started;
  }

  answerTook(ms: number): void {
    const before = this.#latencyMs;
    this.#latencyMs = before === null ? ms : before + (ms - before) * LATENCY_WEIGHT;
  }

  /** Cancels every call; the server is notified of those that it has. */
  cancelCalls(why: string): void {
    for (const call of [...this.calls]) call.cancel(new McpCancelledError(this.#record.server_id, why));
  }

  #cache<Raw extends { readonly ttlMs: number | null }, List>(
    kind: CallKind,
    list: (session: ServerSession, limits: PoolLimits, signal: AbortSignal) => Promise<Raw>,
    compile: ListCacheDeps<Raw, List>['compile'],
  ): ListCache<Raw, List> {
    const { limits, log, now } = this.#deps;
    const { server_id: serverId } = this.#record;
    return new ListCache<Raw, List>({
      serverId,
      what: `${kind}s/list`,
      limits,
      now,
      withSession: (work) => this.#withSession(work),
      list: (session, signal) =>
        this.#during(`${kind}s/list`, listWait(kind, this.#record, limits), list(session, limits, signal)),
      compile,
      failed: (error) => {
        const isClosed = error instanceof McpConnectionError && error.reason === 'closed';
        if (kind === 'tool' && !isClosed) this.#deps.listed(serverId, toToolError(error).message);
        log({ level: 'warn', event: 'list_failed', serverId, message: error.message });
      },
    });
  }

  #invalidate(kind: CallKind | null): void {
    if (kind === null || kind === 'tool') this.tools.invalidate();
    if (kind === null || kind === 'resource') this.#resources.invalidate();
    if (kind === null || kind === 'prompt') this.#prompts.invalidate();
  }

  #warn(event: 'tool_dropped' | 'schema_unchecked' | 'list_odd', message: string): void {
    this.#deps.log({ level: 'warn', event, serverId: this.#record.server_id, message });
  }

  async #during<T>(what: ServerStep['what'], wait: Wait, work: Promise<T>): Promise<T> {
    const step = { what, sinceMs: this.#deps.now(), atMostMs: wait.atMostMs ?? 0 };
    this.#step = step;
    try {
      return await whileWaiting(this.waiting, wait, work);
    } finally {
      if (this.#step === step) this.#step = null;
    }
  }

  async #withSession<T>(work: (session: ServerSession) => Promise<T>): Promise<T> {
    const session = await this.connection.lease(null);
    try {
      return await work(session);
    } finally {
      session.release();
    }
  }

  async #compile(listing: RawListing, before: CompiledToolList | null): Promise<CompiledToolList> {
    if (before !== null && isUnchanged(listing, before)) {
      this.#listed(before.list, listing.durationMs);
      return before;
    }
    const compiled = await compileToolList(listing.tools, listing.source, {
      serverId: this.#record.server_id,
      version: this.#deps.nextVersion(),
      notice: listing.notice,
      instructions: listing.instructions,
      mirrorsHeaders: listing.mirrorsHeaders,
      engine: await this.#deps.schemas(),
      strikes: this.#strikes,
      onWarning: ({ name, detail }) => this.#warn('schema_unchecked', `tool "${name}": ${detail}`),
    });
    if (listing.notice !== null) this.#warn('list_odd', `tools/list: ${listing.notice}`);
    for (const { name, reason, detail } of compiled.list.dropped) {
      this.#warn('tool_dropped', `tool "${name}" is left out (${reason}): ${detail}`);
    }
    this.#listed(compiled.list, listing.durationMs);
    return compiled;
  }

  #listed({ serverId, tools }: ToolList, durationMs: number): void {
    const message = `${tools.length} tools`;
    const names = tools.map(({ name }) => name);
    this.#deps.listed(serverId, pinProblem(this.#record, tools));
    this.#deps.log({ level: 'debug', event: 'tools_listed', serverId, message, durationMs, tools: names });
  }
}

function isUnchanged({ source, notice, instructions, mirrorsHeaders }: RawListing, before: CompiledToolList): boolean {
  const isSameList = source === before.source && mirrorsHeaders === before.mirrorsHeaders;
  return isSameList && notice === before.list.notice && instructions === before.list.instructions;
}
