import { abortWith } from '../base/abort.ts';
import type { JsonObject } from '../base/json.ts';
import { toldWhile, type Wait, type Waiting } from '../base/waiting.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { CallQueue, type Release } from './call-queue.ts';
import { type ConnectionHealth, ServerConnection } from './connection.ts';
import {
  McpArgumentsError,
  McpBudgetError,
  McpCancelledError,
  McpConnectionError,
  McpError,
  McpSchemaError,
  McpTimeoutError,
} from './errors.ts';
import { listTools, type RawListing } from './list-tools.ts';
import type { ConnectLimits, SessionEvents } from './open-session.ts';
import type { PoolLog } from './pool-log.ts';
import type { PoolLimits } from './pool-options.ts';
import { type SchemaEngine, SchemaStrikes, type Verdict } from './schema/checks.ts';
import type { ServerSession } from './session.ts';
import { TimeBudget } from './time-budget.ts';
import {
  type CheckedTool,
  type CompiledToolList,
  compileToolList,
  type ToolDescriptor,
  type ToolList,
} from './tool-list.ts';
import { convertError, convertResult, type ToolOutput } from './tool-result.ts';
import { ToolsCache } from './tools-cache.ts';
import { answerOf, listOf, placeAnywhere, placeAt, startOf } from './waits.ts';

/** A call that its caller has let through. */
export interface PoolCall {
  /** The server's own name of the tool. */
  readonly tool: string;
  readonly args: JsonObject;
  /** Whose call it is; places at a busy server go round between owners. */
  readonly owner: string;
  readonly signal?: AbortSignal;
  /** Can only shorten what the record allows. */
  readonly timeoutMs?: number;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes?: number;
  /** Waited for when the call has its place: it is not sent if this rejects. */
  readonly announce?: () => Promise<void>;
  /** Asked at the last moment, after every wait; throws an McpError to refuse the call. */
  readonly beforeDispatch?: (tool: ToolDescriptor) => void;
}

export interface ServerHealth extends ConnectionHealth {
  readonly serverId: string;
  readonly toolCount: number | null;
}

export interface ServerEntryDeps {
  readonly limits: PoolLimits;
  /** Places for calls in flight, shared by all servers. */
  readonly places: CallQueue;
  readonly schemas: () => Promise<SchemaEngine>;
  readonly nextVersion: () => number;
  open(record: McpServerRecord, events: SessionEvents, limits: ConnectLimits): Promise<ServerSession>;
  readonly log: PoolLog;
  readonly waiting: Waiting;
  readonly now: () => number;
  readonly random: () => number;
}

/** A call whose connection broke while it waited gets one more; after that it fails. */
const MAX_ROUNDS = 2;

/** Everything the pool holds for one server: its connection, its tools, its line of calls. */
export class ServerEntry {
  readonly connection: ServerConnection;
  readonly queue: CallQueue;
  lastUsedMs: number;
  readonly #deps: ServerEntryDeps;
  readonly #tools: ToolsCache;
  readonly #calls = new Set<AbortController>();
  readonly #strikes = new SchemaStrikes();
  /** Tools whose arguments or results go unchecked, and that somebody was told of. */
  readonly #toldUnchecked = new Set<string>();
  #record: McpServerRecord;

  constructor(record: McpServerRecord, deps: ServerEntryDeps) {
    this.#record = record;
    this.#deps = deps;
    this.lastUsedMs = deps.now();
    const serverId = record.server_id;
    this.queue = new CallQueue(
      { capacity: record.budgets.max_concurrency, maxQueued: deps.limits.maxQueuedCalls },
      () => new McpBudgetError(serverId, `too many calls wait for server "${serverId}" (maxQueuedCalls)`),
    );
    this.connection = new ServerConnection(record, {
      ...deps,
      open: (wanted, events, limits) =>
        toldWhile(deps.waiting, startOf(wanted, limits.timeoutMs), deps.open(wanted, events, limits)),
      toolsChanged: () => this.#tools.invalidate(),
    });
    this.#tools = new ToolsCache({
      ...deps,
      serverId,
      withSession: (work) => this.#withSession(work),
      list: (session, signal) =>
        toldWhile(deps.waiting, listOf(this.#record, deps.limits), listTools(session, deps.limits, signal)),
      compile: (listing, before) => this.#compile(listing, before),
      failed: (error) => deps.log({ level: 'warn', event: 'list_failed', serverId, message: error.message }),
    });
  }

  get record(): McpServerRecord {
    return this.#record;
  }

  get health(): ServerHealth {
    return { serverId: this.#record.server_id, ...this.connection.health, toolCount: this.#tools.toolCount };
  }

  setRecord(record: McpServerRecord): void {
    if (record === this.#record) return;
    this.#record = record;
    this.queue.setCapacity(record.budgets.max_concurrency);
    this.#tools.invalidate();
    this.connection.setRecord(record);
  }

  async listTools(signal: AbortSignal | null): Promise<ToolList> {
    this.lastUsedMs = this.#deps.now();
    return (await this.#tools.get(signal)).list;
  }

  /** The tool as it is listed now, if it would take these arguments. */
  async describeTool({ tool, args, signal }: Pick<PoolCall, 'tool' | 'args' | 'signal'>): Promise<ToolDescriptor> {
    this.lastUsedMs = this.#deps.now();
    const found = this.#find(tool, await this.#tools.get(signal ?? null));
    await this.#check(found, args);
    return found.tool;
  }

  async callTool(call: PoolCall): Promise<ToolOutput> {
    const { budgets, server_id: serverId } = this.#record;
    this.lastUsedMs = this.#deps.now();
    const maxOutputBytes = Math.min(call.maxOutputBytes ?? Number.POSITIVE_INFINITY, budgets.max_tool_output_bytes);
    const timeoutMs = Math.min(call.timeoutMs ?? Number.POSITIVE_INFINITY, budgets.tool_timeout_ms);
    const abort = new AbortController();
    const unlink = abortWith(abort, call.signal, () => cancelReason(serverId, call.signal));
    this.#calls.add(abort);
    try {
      const timeout = () => new McpTimeoutError(serverId, timeoutMs, `tool "${call.tool}" of server "${serverId}"`);
      const budget = new TimeBudget(timeoutMs, abort.signal, timeout);
      const line = new TimeBudget(this.#deps.limits.queueTimeoutMs, abort.signal, () => this.#waitedTooLong());
      abort.signal.throwIfAborted();
      const place = () => placeAt(this.#record, this.#deps.limits);
      const release = this.queue.take() ?? (await this.#acquire(this.queue, call.owner, line, place));
      try {
        return await this.#run(call, { budget, line, signal: abort.signal, maxOutputBytes });
      } finally {
        release();
      }
    } catch (error) {
      return convertError(error, maxOutputBytes);
    } finally {
      unlink();
      this.#calls.delete(abort);
    }
  }

  /** Ends every call; the server is told of each that it was sent. */
  cancelCalls(why: string): void {
    for (const call of this.#calls) call.abort(new McpCancelledError(this.#record.server_id, why));
  }

  async #run(
    call: PoolCall,
    run: {
      budget: TimeBudget;
      line: TimeBudget;
      signal: AbortSignal;
      maxOutputBytes: number;
    },
  ): Promise<ToolOutput> {
    const { server_id: serverId } = this.#record;
    const { tool: toolName, args } = call;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const { session, release } = await this.connection.lease(run.signal);
      try {
        const found = this.#find(toolName, await this.#tools.get(run.signal));
        await this.#check(found, args);
        run.signal.throwIfAborted();
        const { places } = this.#deps;
        const place = () => placeAnywhere(this.#deps.limits);
        const leave = places.take() ?? (await this.#acquire(places, call.owner, run.line, place));
        try {
          if (!session.usable) continue;
          if (call.announce) {
            await call.announce();
            run.signal.throwIfAborted();
            if (!session.usable) continue;
          }
          call.beforeDispatch?.(found.tool);
          const subject = { what: `tool "${toolName}"`, toolName };
          const params = { name: toolName, arguments: args };
          const work = run.budget.spend((signal) => session.request('tools/call', params, signal, subject));
          const result = await toldWhile(this.#deps.waiting, answerOf(toolName, this.#record, run.budget.leftMs), work);
          const { maxOutputBytes } = run;
          const { redact, redactContent } = session;
          const outputProblem = await this.#outputProblem(found, result);
          return convertResult(result, {
            serverId,
            toolName,
            maxOutputBytes,
            outputProblem,
            redact,
            redactContent,
          });
        } finally {
          leave();
        }
      } finally {
        release();
      }
    }
    throw new McpConnectionError(serverId, 'lost', `server "${serverId}" ended its connection while the call waited`);
  }

  #acquire(queue: CallQueue, owner: string, line: TimeBudget, place: () => Wait): Promise<Release> {
    return toldWhile(
      this.#deps.waiting,
      place(),
      line.spend((signal) => queue.acquire(owner, signal)),
    );
  }

  #waitedTooLong(): McpBudgetError {
    const { server_id: serverId } = this.#record;
    const { queueTimeoutMs } = this.#deps.limits;
    return new McpBudgetError(
      serverId,
      `no place at server "${serverId}" within ${queueTimeoutMs} ms (queueTimeoutMs)`,
    );
  }

  #find(toolName: string, { list, tools }: CompiledToolList): CheckedTool {
    const found = tools.get(toolName);
    if (found !== undefined) return found;
    const dropped = list.dropped.find(({ name }) => name === toolName);
    if (dropped !== undefined) throw new McpSchemaError(list.serverId, toolName, `cannot be used: ${dropped.detail}`);
    throw new McpArgumentsError(list.serverId, toolName, `server "${list.serverId}" has no tool "${toolName}"`);
  }

  /** Resolves where the arguments may be sent. What cannot be checked is the server's to check, unless its record is strict. */
  async #check({ tool, input }: CheckedTool, args: JsonObject): Promise<void> {
    const { server_id: serverId, strict_schemas: strict } = this.#record;
    const checked = input.check(args);
    const verdict = checked instanceof Promise ? await checked : checked;
    if (verdict === null) return;
    if ('problem' in verdict) {
      throw new McpArgumentsError(serverId, tool.name, `tool "${tool.name}": ${verdict.problem}`);
    }
    if (strict) {
      const why = `its arguments cannot be checked (strict_schemas): ${verdict.unchecked}`;
      throw new McpSchemaError(serverId, tool.name, `cannot be used: ${why}`);
    }
    this.#tellUnchecked(tool.name, 'arguments', verdict.unchecked);
  }

  async #outputProblem({ tool, output }: CheckedTool, result: JsonObject): Promise<string | null> {
    const { isError, structuredContent } = result;
    if (output === null || structuredContent === undefined || isError === true) return null;
    const checked = output.check(structuredContent);
    const verdict: Verdict = checked instanceof Promise ? await checked : checked;
    if (verdict === null) return null;
    if ('problem' in verdict) return verdict.problem;
    this.#tellUnchecked(tool.name, 'results', verdict.unchecked);
    return null;
  }

  #tellUnchecked(name: string, what: 'arguments' | 'results', why: string): void {
    const key = `${what} ${name}`;
    if (this.#toldUnchecked.has(key)) return;
    this.#toldUnchecked.add(key);
    this.#warn('schema_unchecked', `the ${what} of tool "${name}" are not checked here: ${why}`);
  }

  #warn(event: 'tool_dropped' | 'schema_unchecked', message: string): void {
    this.#deps.log({ level: 'warn', event, serverId: this.#record.server_id, message });
  }

  async #withSession<T>(work: (session: ServerSession) => Promise<T>): Promise<T> {
    const { session, release } = await this.connection.lease(null);
    try {
      return await work(session);
    } finally {
      release();
    }
  }

  async #compile(listing: RawListing, before: CompiledToolList | null): Promise<CompiledToolList> {
    if (before?.source === listing.source) {
      this.#listed(before.list, listing.durationMs);
      return before;
    }
    const compiled = await compileToolList(listing.tools, listing.source, {
      serverId: this.#record.server_id,
      version: this.#deps.nextVersion(),
      engine: await this.#deps.schemas(),
      strikes: this.#strikes,
      onWarning: ({ name, detail }) => this.#warn('schema_unchecked', `tool "${name}": ${detail}`),
    });
    for (const { name, reason, detail } of compiled.list.dropped) {
      this.#warn('tool_dropped', `tool "${name}" is left out (${reason}): ${detail}`);
    }
    this.#listed(compiled.list, listing.durationMs);
    return compiled;
  }

  #listed({ serverId, tools }: ToolList, durationMs: number): void {
    const message = `${tools.length} tools`;
    const names = tools.map(({ name }) => name);
    this.#deps.log({ level: 'debug', event: 'tools_listed', serverId, message, durationMs, tools: names });
  }
}

function cancelReason(serverId: string, signal: AbortSignal | undefined): McpError {
  const reason: unknown = signal?.reason;
  return reason instanceof McpError ? reason : new McpCancelledError(serverId, 'the call was cancelled');
}
