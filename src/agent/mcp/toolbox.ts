import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import { type OptionKeys, refuseUnknownKeys } from '../../config/option-keys.ts';
import { StaticRegistry } from '../../registry-client/cache.ts';
import { noLists, noToolSearch, type TaskPolicy } from '../../runtime/port/policy-layers.ts';
import { type AuditSink, noAudit } from '../../server/audit/event.ts';
import type { EgressOptions } from '../../server/egress/egress.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { Metrics } from '../../server/telemetry/metrics.ts';
import type { ApprovalOptions } from '../approvals/gate.ts';
import type { ApprovalDecider } from '../approvals/request.ts';
import { parseApprovalRules } from '../policy/approval-rules-parse.ts';
import type { ElicitationDecider } from './client/elicitation/question.ts';
import { McpConnectionError, McpSchemaError, McpToolError } from './client/errors.ts';
import { openPool } from './client/open-pool.ts';
import type { McpPool } from './client/pool.ts';
import type { PoolLog } from './client/pool-options.ts';
import type { ToolDescriptor } from './client/tool-list.ts';
import { GuestMcp, type GuestToolCall } from './guest-mcp.ts';
import { availablePrompts, filterTools, readableResources } from './session-tools.ts';
import { ToolEvents, type ToolListener, watchMcp } from './tool-events.ts';
import { encodedName, NameClaims } from './tool-names.ts';
import { type ToolboxServer, toRecords } from './toolbox-server.ts';

export type { ToolboxServer } from './toolbox-server.ts';

export interface ToolboxOptions {
  readonly servers: readonly ToolboxServer[];
  /** Directory of the homes of stdio servers. @default this user's state directory, as for the commands */
  readonly stateDir?: string;
  readonly audit?: AuditSink;
  readonly log?: PoolLog;
  /** Hosts and addresses of HTTP servers. @default any public address, and this machine */
  readonly egress?: EgressOptions;
  /** Decides calls that need an approval (`ToolboxServer.approval`). @default such calls are denied */
  readonly approve?: ApprovalDecider;
  /** Answers requests for user input during calls (`ToolboxServer.clientFeatures`). @default they are declined */
  readonly elicit?: ElicitationDecider;
  /** Rules for servers with approval `policy`, in the form of the config files. @default none */
  readonly approvalRules?: readonly JsonObject[];
  /** Deadline for an answer of `approve` or `elicit`. @default 120000 */
  readonly approvalTimeoutMs?: number;
  /** Instruments that count calls and connections: `createMetrics(meterProvider)`. @default none */
  readonly metrics?: Metrics | null;
}

const toolboxOptionKeys: OptionKeys<ToolboxOptions> = {
  servers: true,
  stateDir: true,
  audit: true,
  log: true,
  egress: true,
  approve: true,
  elicit: true,
  approvalRules: true,
  approvalTimeoutMs: true,
  metrics: true,
};

/** Result of a call. A failed call is a result as well, so that an agent can continue. */
export interface ToolboxResult {
  readonly success: boolean;
  /** `ok`, or the error message. */
  readonly message: string;
  /** `{content, structuredContent?}`, or `{error, …}`. */
  readonly value: JsonObject;
}

export interface ToolboxTool<Params = Record<string, unknown>> {
  /** `<prefix>_<tool>`; the encoded name if that could also be a tool of another server. */
  readonly name: string;
  readonly server: string;
  /** The server's own name of the tool. */
  readonly tool: string;
  /** Text of the server, untrusted. Cut at 200 characters. */
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | null;
  call(params: Params, options?: { readonly signal?: AbortSignal }): Promise<ToolboxResult>;
}

const MAX_DESCRIPTION = 200;

/** Readable resources of a server as it listed them, and templates with at least one readable resource. */
export interface ToolboxResources {
  readonly resources: readonly JsonObject[];
  readonly templates: readonly JsonObject[];
}

interface CallSignal {
  readonly signal?: AbortSignal;
}

interface Open {
  readonly pool: McpPool;
  readonly guests: ReadonlyMap<string, GuestMcp>;
  readonly tools: readonly ToolboxTool[];
  /** Unusable tools by the name they would have. */
  readonly dropped: ReadonlyMap<string, McpSchemaError>;
  release(): Promise<void>;
}

/**
 * Tools of MCP servers for a TypeScript program without a guest, with the same pool, checks and events.
 * Nothing connects before {@link connect}; `await using` disconnects.
 *
 * Invariants: `connect` is shared by concurrent callers and leaves nothing open on failure; `disconnect` ends a connect in
 * progress. Each server has a GuestMcp of its own, so that its policy concerns no other server.
 */
export class McpToolbox {
  readonly #options: ToolboxOptions;
  readonly #records: readonly McpServerRecord[];
  readonly #denied: ReadonlyMap<string, readonly string[]>;
  readonly #approvals: ApprovalOptions;
  readonly #events = new ToolEvents();
  #opening: { readonly abort: AbortController; readonly result: Promise<Open> } | null = null;
  #open: Open | null = null;

  /** @throws ConfigError for an unknown option, McpConnectionError naming the server and its invalid field */
  constructor(options: ToolboxOptions) {
    refuseUnknownKeys('McpToolbox', options, toolboxOptionKeys);
    this.#options = options;
    const { metrics } = options;
    if (metrics) this.#events.subscribe((invocation) => metrics.mcp.toolCalled(invocation));
    this.#records = toRecords(options.servers);
    this.#approvals = toApprovals(options);
    this.#denied = new Map(options.servers.map(({ name, disabledTools }) => [name, disabledTools ?? []]));
  }

  /** Whether every server is connected or idle: false while a lost one waits for its reconnect. */
  get connected(): boolean {
    const states = this.#open?.pool.health().map(({ state }) => state);
    return states?.every((state) => state === 'connected' || state === 'idle') ?? false;
  }

  /**
   * Connects to every server and lists its tools. Fails, and leaves nothing open, if one is unreachable.
   * @throws McpConnectionError, McpTimeoutError
   */
  async connect(): Promise<void> {
    if (this.#opening === null) {
      const abort = new AbortController();
      this.#opening = { abort, result: this.#start(abort.signal) };
    }
    const opening = this.#opening;
    try {
      const open = await opening.result;
      if (this.#opening === opening) this.#open = open;
    } catch (error) {
      if (this.#opening === opening) this.#opening = null;
      throw error;
    }
    if (this.#opening !== opening)
      throw new McpConnectionError('', 'closed', 'the toolbox was disconnected while it was connecting');
  }

  /** Cancels pending calls and stops every server. */
  async disconnect(): Promise<void> {
    const opening = this.#opening;
    this.#opening = null;
    this.#open = null;
    opening?.abort.abort(new McpConnectionError('', 'closed', 'the toolbox was disconnected while it was connecting'));
    const open = await opening?.result.catch(() => null); // a failed connect has closed everything already
    await open?.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.disconnect();
  }

  /** @throws McpConnectionError before connect */
  tools(): readonly ToolboxTool[] {
    return this.#required().tools;
  }

  /**
   * One tool by its name. A schema given as a literal (`as const`) types the parameters; at run time the server's schema is
   * checked.
   * @throws McpToolError if no tool has the name, McpSchemaError if the tool cannot be used
   */
  tool<const Schema = unknown>(name: string, _schema?: Schema): ToolboxTool<Params<Schema>> {
    const { tools, dropped } = this.#required();
    const found = tools.find((tool) => tool.name === name);
    if (found) return found as ToolboxTool<Params<Schema>>;
    const known = tools.map((tool) => tool.name).join(', ');
    throw (
      dropped.get(name) ??
      new McpToolError('', name, `there is no tool named ${JSON.stringify(name)} (there are: ${known})`)
    );
  }

  /** Resources that `enabledResources` of the server permits. @throws McpError */
  async listResources(server: string, options: CallSignal = {}): Promise<ToolboxResources> {
    const { pool, scope } = this.#server(server);
    const { resources, templates } = readableResources(await pool.listResources(scope.record, options), scope);
    return { resources: resources as JsonObject[], templates: templates as JsonObject[] };
  }

  /** `{contents}` of a resource in `value`. A refused or failed read is a result. */
  async readResource(server: string, uri: string, options: CallSignal = {}): Promise<ToolboxResult> {
    const { mcp } = this.#server(server);
    return callOf(mcp, { kind: 'resource', serverId: server, tool: uri, arguments: '' }, options);
  }

  /** Prompts that `enabledPrompts` of the server permits. @throws McpError */
  async listPrompts(server: string, options: CallSignal = {}): Promise<readonly JsonObject[]> {
    const { pool, scope } = this.#server(server);
    return availablePrompts(await pool.listPrompts(scope.record, options), scope).prompts as JsonObject[];
  }

  /** `{messages}` of a prompt in `value`. A refused or failed request is a result. */
  async getPrompt(
    server: string,
    name: string,
    args: Readonly<Record<string, string>> = {},
    options: CallSignal = {},
  ): Promise<ToolboxResult> {
    const { mcp } = this.#server(server);
    return callOf(mcp, { kind: 'prompt', serverId: server, tool: name, arguments: JSON.stringify(args) }, options);
  }

  /** Called after every call with its outcome. Returns a function that unsubscribes. */
  onToolInvoked(listener: ToolListener): () => void {
    return this.#events.subscribe(listener);
  }

  #server(name: string) {
    const { pool, guests } = this.#required();
    const mcp = guests.get(name);
    const record = this.#records.find(({ server_id }) => server_id === name);
    if (mcp === undefined || record === undefined) {
      const known = [...guests.keys()].join(', ');
      throw new McpConnectionError(
        name,
        'closed',
        `there is no server named ${JSON.stringify(name)} (there are: ${known})`,
      );
    }
    return { pool, mcp, scope: { record, task: mcp.task, session: null, profile: null } };
  }

  #required(): Open {
    if (this.#open) return this.#open;
    throw new McpConnectionError('', 'closed', 'the toolbox is not connected: call connect() first');
  }

  async #start(signal: AbortSignal): Promise<Open> {
    const metrics = this.#options.metrics?.mcp;
    const { allowHosts = null, allowAddresses = null } = this.#options.egress ?? {};
    const { pool, close } = await openPool({
      // Values in the program's own records are literals, so references resolve to nothing.
      references: { mode: 'user_owned', names: [], paths: [], backendKeyNames: [] },
      variables: {},
      egress: { allowHosts, allowAddresses },
      stdio: null,
      stateDir: this.#options.stateDir,
      log: (entry) => {
        metrics?.poolEvent(entry);
        this.#options.log?.(entry);
      },
    });
    const forget = metrics && watchMcp(metrics, pool, null);
    const guests = new Map<string, GuestMcp>();
    const release = async () => {
      for (const guest of guests.values()) guest.close();
      forget?.();
      await close();
    };
    try {
      const registry = new StaticRegistry(this.#records);
      const given = this.#options.audit ?? noAudit;
      const audit = metrics?.countedSink(given, null) ?? given;
      const deps = { pool, registry, audit, events: this.#events };
      const run = randomUUID();
      const lists = await Promise.all(this.#records.map((record) => pool.listTools(record, { signal })));
      const tools: ToolboxTool[] = [];
      const dropped = new Map<string, McpSchemaError>();
      const claims = new NameClaims(this.#records);
      const nameOf = ({ tool_prefix: prefix, server_id: id }: McpServerRecord, tool: string) => {
        const name = `${prefix}_${tool}`;
        return claims.isUnambiguous(name, id) ? name : encodedName(id, tool);
      };
      for (const [index, record] of this.#records.entries()) {
        const list = lists[index] as (typeof lists)[number];
        const mcp = new GuestMcp(deps, run, this.#task(record), this.#approvals);
        guests.set(record.server_id, mcp);
        for (const { name, detail } of list.dropped) {
          dropped.set(nameOf(record, name), new McpSchemaError(record.server_id, name, detail));
        }
        for (const tool of filterTools(list, record, mcp.task, null, null).tools) {
          tools.push(bridged(nameOf(record, tool.name), mcp, record, tool));
        }
      }
      return { pool, guests, tools: Object.freeze(tools), dropped, release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  #task(record: McpServerRecord): TaskPolicy {
    return Object.freeze({
      enabled: true,
      defaultServerIds: [record.server_id],
      allowedServerIds: [record.server_id],
      serverTags: null,
      toolAllowlist: null,
      toolDenylist: Object.freeze([...(this.#denied.get(record.server_id) ?? [])]),
      resourceLists: noLists,
      promptLists: noLists,
      resourceTools: false,
      toolNaming: 'encoded',
      toolSearch: noToolSearch,
      profile: null,
    });
  }
}

/** @throws McpConnectionError naming the invalid rule */
function toApprovals(options: ToolboxOptions): ApprovalOptions {
  const { approve, elicit, approvalRules = [], approvalTimeoutMs: timeoutMs } = options;
  const parsed = parseApprovalRules(approvalRules);
  if (!parsed.ok) {
    const problems = parsed.issues.map(({ path, message }) => `approvalRules${path} ${message}`);
    throw new McpConnectionError('', 'record_invalid', problems.join('; '));
  }
  const rules = Object.freeze({ node: Object.freeze([]), task: parsed.rules });
  return { decide: approve ?? null, elicit: elicit ?? null, rules, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}

type Params<Schema> = unknown extends Schema
  ? Record<string, unknown>
  : FromSchema<Schema> extends infer Found
    ? Found
    : never;

function bridged(name: string, mcp: GuestMcp, record: McpServerRecord, tool: ToolDescriptor): ToolboxTool {
  return Object.freeze({
    name,
    server: record.server_id,
    tool: tool.name,
    description: startOf(tool.description, MAX_DESCRIPTION),
    inputSchema: tool.inputSchema,
    outputSchema: tool.outputSchema,
    call: (params: Record<string, unknown>, options: CallSignal = {}) =>
      callOf(mcp, { serverId: record.server_id, tool: tool.name, arguments: JSON.stringify(params) }, options),
  });
}

async function callOf(
  mcp: GuestMcp,
  about: Pick<GuestToolCall, 'kind' | 'serverId' | 'tool' | 'arguments'>,
  options: CallSignal,
): Promise<ToolboxResult> {
  const signal = options.signal ?? new AbortController().signal;
  const json = await mcp.call({ ...about, callId: randomUUID(), session: 'toolbox' }, signal);
  const value = JSON.parse(json) as JsonObject;
  const failure = value.error as JsonObject | undefined;
  return { success: failure === undefined, message: failure ? String(failure.message) : 'ok', value };
}

/** A JSON Schema as a literal (`as const`). */
type SchemaLiteral = { readonly [keyword: string]: unknown };

interface Primitives {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  null: null;
}

type ObjectOf<Properties, Required extends string> = {
  -readonly [Key in keyof Properties as Key extends Required ? Key : never]: FromSchema<Properties[Key]>;
} & {
  -readonly [Key in keyof Properties as Key extends Required ? never : Key]?: FromSchema<Properties[Key]>;
};

type RequiredKeys<Schema> = Schema extends { readonly required: readonly (infer Key)[] } ? Extract<Key, string> : never;

type FromType<Schema, Type> = Type extends keyof Primitives
  ? Primitives[Type]
  : Type extends 'array'
    ? Schema extends { readonly items: infer Items }
      ? FromSchema<Items>[]
      : unknown[]
    : Type extends 'object'
      ? Schema extends { readonly properties: infer Properties }
        ? ObjectOf<Properties, RequiredKeys<Schema>>
        : Record<string, unknown>
      : unknown;

/**
 * TypeScript type of the values of a schema. `$ref`, `allOf` and conditions become `unknown`; the host checks every call
 * against the complete schema.
 */
export type FromSchema<Schema> = Schema extends SchemaLiteral
  ? Schema extends { readonly const: infer Value }
    ? Value
    : Schema extends { readonly enum: readonly (infer Value)[] }
      ? Value
      : Schema extends { readonly anyOf: readonly (infer Option)[] }
        ? FromSchema<Option>
        : Schema extends { readonly oneOf: readonly (infer Option)[] }
          ? FromSchema<Option>
          : Schema extends { readonly type: readonly (infer Type)[] }
            ? FromType<Schema, Type>
            : Schema extends { readonly type: infer Type }
              ? FromType<Schema, Type>
              : unknown
  : unknown;
