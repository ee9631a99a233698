import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TaskPolicy } from '../policy/layers.ts';
import { McpConnectionError, McpSchemaError, McpToolError } from '../pool/errors.ts';
import { McpPool } from '../pool/pool.ts';
import type { PoolLog } from '../pool/pool-log.ts';
import { createSecretSource } from '../pool/secret-source.ts';
import type { ToolDescriptor } from '../pool/tool-list.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { parseRecord } from '../protocol/record-parse.ts';
import { StaticRegistry } from '../registry/static-registry.ts';
import { type AuditTrail, noAudit } from '../telemetry/audit-event.ts';
import { GuestMcp } from './guest-mcp.ts';
import type { FromSchema } from './schema-types.ts';
import { filterTools } from './session-tools.ts';
import { ToolEvents, type ToolListener } from './tool-events.ts';

/** One MCP server of a program that embeds Spear. */
export interface ToolboxServer {
  /** The rules of a record's `server_id`. */
  readonly name: string;
  readonly transport:
    | { readonly kind: 'stdio'; readonly command: string; readonly args?: readonly string[]; readonly cwd?: string }
    | {
        readonly kind: 'streamable_http' | 'http_sse_legacy';
        readonly url: string;
        readonly headers?: Readonly<Record<string, string>>;
      };
  /** Prefix of its tools' names. @default name */
  readonly toolPrefix?: string;
  /** Patterns of tools that may be called. @default all */
  readonly enabledTools?: readonly string[];
  /** Patterns of tools that may not, whatever `enabledTools` says. @default none */
  readonly disabledTools?: readonly string[];
  /** Deadline of one call. @default 30000 */
  readonly timeoutMs?: number;
  /** Environment of a stdio server; it gets nothing else of this process. @default none */
  readonly env?: Readonly<Record<string, string>>;
}

export interface ToolboxOptions {
  readonly servers: readonly ToolboxServer[];
  /** Where homes of stdio servers live on between runs. @default a temporary directory */
  readonly stateDir?: string;
  readonly audit?: AuditTrail;
  readonly log?: PoolLog;
}

/** What a call gave. A failed call is a result, so that an agent can go on. */
export interface ToolboxResult {
  readonly success: boolean;
  /** `ok`, or what went wrong. */
  readonly message: string;
  /** `{content, structuredContent?}`, or `{error, …}`. */
  readonly value: JsonObject;
}

export interface ToolboxTool<Params = Record<string, unknown>> {
  /** `<prefix>_<tool>`. */
  readonly name: string;
  readonly server: string;
  /** As the server calls it. */
  readonly tool: string;
  /** Text of the server: not to be trusted. Cut at 200 characters. */
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | null;
  call(params: Params, options?: { readonly signal?: AbortSignal }): Promise<ToolboxResult>;
}

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_DESCRIPTION = 200;

/**
 * Tools of MCP servers for a TypeScript program, without any guest: the same pool, the same checks, the same events.
 * Nothing connects before {@link connect}; `await using` closes it.
 */
export class McpToolbox {
  readonly #options: ToolboxOptions;
  readonly #records: readonly McpServerRecord[];
  readonly #denied: ReadonlyMap<string, readonly string[]>;
  readonly #events = new ToolEvents();
  #open: {
    pool: McpPool;
    access: ReadonlyMap<string, GuestMcp>;
    tools: ToolboxTool[];
    release: () => Promise<void>;
  } | null = null;

  /** @throws McpSchemaError naming the server and the field that is wrong */
  constructor(options: ToolboxOptions) {
    this.#options = options;
    this.#records = options.servers.map(toRecord);
    this.#denied = new Map(options.servers.map(({ name, disabledTools }) => [name, disabledTools ?? []]));
  }

  get connected(): boolean {
    return this.#open !== null;
  }

  /** Connects to every server and learns its tools. Fails, and leaves nothing open, if one cannot be reached. */
  async connect(): Promise<void> {
    if (this.#open) return;
    const own = this.#options.stateDir === undefined ? await mkdtemp(join(tmpdir(), 'spear-')) : null;
    const pool = new McpPool(
      { stateDir: own ?? (this.#options.stateDir as string) },
      {
        // The program's own records: their values are literals, references have nothing to refer to.
        secrets: createSecretSource({ mode: 'user_owned', names: [], paths: [], backendKeyNames: [] }, {}),
        ...(this.#options.log ? { log: this.#options.log } : {}),
      },
    );
    const release = async () => {
      await pool.close();
      if (own) await rm(own, { recursive: true, force: true });
    };
    try {
      const registry = new StaticRegistry(this.#records);
      const deps = { pool, registry, audit: this.#options.audit ?? noAudit, events: this.#events };
      const run = randomUUID();
      const access = new Map(
        this.#records.map((record) => [record.server_id, new GuestMcp(deps, run, this.#task(record))]),
      );
      const lists = await Promise.all(this.#records.map((record) => this.#tools(pool, record, access)));
      this.#open = { pool, access, tools: lists.flat(), release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  async disconnect(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    for (const mcp of open?.access.values() ?? []) mcp.close();
    await open?.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.disconnect();
  }

  /** @throws McpConnectionError before connect */
  tools(): readonly ToolboxTool[] {
    if (!this.#open) throw new McpConnectionError('', 'closed', 'the toolbox is not connected: call connect() first');
    return this.#open.tools;
  }

  /**
   * One tool by its name. Given its schema as a literal (`as const`), the parameters are typed from it; what is checked
   * at run time is the schema of the server.
   */
  tool<const Schema = unknown>(name: string, _schema?: Schema): ToolboxTool<Params<Schema>> {
    const found = this.tools().find((tool) => tool.name === name);
    if (!found) {
      const known = this.tools().map((tool) => tool.name);
      throw new McpToolError(
        '',
        name,
        `there is no tool named ${JSON.stringify(name)} (there are: ${known.join(', ')})`,
      );
    }
    return found as ToolboxTool<Params<Schema>>;
  }

  /** Called after every call with what became of it. Returns the way to stop it. */
  onToolInvoked(listener: ToolListener): () => void {
    return this.#events.subscribe(listener);
  }

  #task(record: McpServerRecord): TaskPolicy {
    return Object.freeze({
      enabled: true,
      defaultServerIds: [record.server_id],
      allowedServerIds: [record.server_id],
      toolAllowlist: null,
      toolDenylist: Object.freeze([...(this.#denied.get(record.server_id) ?? [])]),
    });
  }

  async #tools(pool: McpPool, record: McpServerRecord, access: ReadonlyMap<string, GuestMcp>): Promise<ToolboxTool[]> {
    const list = await pool.listTools(record);
    const mcp = access.get(record.server_id) as GuestMcp;
    return filterTools(list, record, mcp.task, null).tools.map((tool) => bridged(mcp, record, tool));
  }
}

type Params<Schema> = unknown extends Schema
  ? Record<string, unknown>
  : FromSchema<Schema> extends infer Found
    ? Found
    : never;

function bridged(mcp: GuestMcp, record: McpServerRecord, tool: ToolDescriptor): ToolboxTool {
  return Object.freeze({
    name: `${record.tool_prefix}_${tool.name}`,
    server: record.server_id,
    tool: tool.name,
    description: [...tool.description].slice(0, MAX_DESCRIPTION).join(''),
    inputSchema: tool.inputSchema,
    outputSchema: tool.outputSchema,
    async call(params: Record<string, unknown>, options: { readonly signal?: AbortSignal } = {}) {
      const about = { serverId: record.server_id, tool: tool.name, callId: randomUUID(), session: 'toolbox' };
      const signal = options.signal ?? new AbortController().signal;
      const json = await mcp.call({ ...about, arguments: JSON.stringify(params) }, signal);
      const value = JSON.parse(json) as JsonObject;
      const failure = value.error as JsonObject | undefined;
      return { success: failure === undefined, message: failure ? String(failure.message) : 'ok', value };
    },
  });
}

function toRecord(server: ToolboxServer): McpServerRecord {
  const { transport } = server;
  const parsed = parseRecord(
    {
      server_id: server.name,
      transport: transport.kind,
      tool_prefix: server.toolPrefix ?? server.name,
      allowed_tools: server.enabledTools ?? ['*'],
      budgets: { tool_timeout_ms: server.timeoutMs ?? DEFAULT_TIMEOUT_MS },
      ...(transport.kind === 'stdio'
        ? {
            stdio: {
              command: transport.command,
              args: transport.args ?? [],
              env: server.env ?? {},
              ...(transport.cwd === undefined ? {} : { cwd: transport.cwd }),
            },
          }
        : { http: { url: transport.url, headers: transport.headers ?? {} } }),
    },
    { strict: true },
  );
  if (parsed.ok) return parsed.record;
  const problems = parsed.issues.map(({ path, message }) => `${path} ${message}`).join('; ');
  throw new McpSchemaError(server.name, '', `the server ${JSON.stringify(server.name)} cannot be used: ${problems}`);
}
