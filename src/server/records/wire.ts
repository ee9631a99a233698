/**
 * Compatibility adapter: converts records to and from the protobuf messages of package `sms`.
 *
 * Invariants
 * - Names and numbers of fields are fixed, see docs/compatibility.md; the fields of this project start at 100.
 * - `…ToWire` writes every field. `wireTo…Input` returns input for the parser of the kind and checks nothing itself.
 * - A node that cannot read a stop stops everything: an unreadable stop is never ignored.
 */
import { create } from '@bufbuild/protobuf';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { McpProfileSchema, type McpProfile as WireProfile } from '../../generated/proto/sms/mcp_profile_pb.ts';
import {
  McpServerRecordSchema,
  type McpBudgets as WireBudgets,
  type McpServerRecord as WireRecord,
  McpTransport as WireTransport,
} from '../../generated/proto/sms/mcp_server_record_pb.ts';
import { StopSchema, type Stop as WireStop } from '../../generated/proto/sms/stop_pb.ts';
import {
  TaskRecordSchema,
  TaskRevisionSchema,
  type TaskRevision as WireRevision,
  type TaskRecord as WireTask,
} from '../../generated/proto/sms/task_records_pb.ts';
import { type McpProfile, profileKind } from './profile.ts';
import type { RecordKind, StoreStamps } from './record-kind.ts';
import {
  type McpBudgets,
  type McpOAuth,
  type McpServerRecord,
  type McpTransport,
  serverKind,
  usesStdio,
} from './server.ts';
import type { StopRecord } from './stop.ts';
import { stopKind } from './stop-kind.ts';
import { type TaskRecord, type TaskRevision, taskContentText, taskKind } from './task.ts';

/** How records of a kind travel between a registry and a node. */
export interface WireKind<Wire, R extends StoreStamps> {
  readonly kind: RecordKind<R>;
  readonly idOf: (wire: Wire) => string;
  /** The message as input of the kind's parser. */
  readonly input: (wire: Wire) => unknown;
}

/** The kinds that nodes follow, by the name of their store. */
export const wireKinds = {
  servers: wireKind(serverKind, ({ serverId }: WireRecord) => serverId, wireToInput),
  profiles: wireKind(profileKind, ({ name }: WireProfile) => name, wireToProfileInput),
  tasks: wireKind(taskKind, ({ taskId }: WireTask) => taskId, wireToTaskInput),
  stops: wireKind(stopKind, ({ stopId }: WireStop) => stopId, wireToStopInput),
} as const;

function wireKind<Wire, R extends StoreStamps>(
  kind: RecordKind<R>,
  idOf: (wire: Wire) => string,
  input: (wire: Wire) => unknown,
): WireKind<Wire, R> {
  return { kind, idOf, input };
}

const wireTransports: Readonly<Record<McpTransport, WireTransport>> = {
  stdio: WireTransport.STDIO,
  streamable_http: WireTransport.STREAMABLE_HTTP,
  http_sse_legacy: WireTransport.HTTP_SSE_LEGACY,
};
const transportNames = new Map(Object.entries(wireTransports).map(([name, number]) => [number, name as McpTransport]));

/** Writes every field, so that a reader does not need to know the defaults. */
export function recordToWire(record: McpServerRecord): WireRecord {
  const { stdio, http, sandbox, budgets, approval_policy: approval } = record;
  return create(McpServerRecordSchema, {
    serverId: record.server_id,
    displayName: record.display_name,
    transport: wireTransports[record.transport],
    ...(stdio === null
      ? {}
      : { stdio: { command: stdio.command, args: [...stdio.args], env: { ...stdio.env }, cwd: stdio.cwd ?? '' } }),
    ...(http === null ? {} : { http: { url: http.url, headers: { ...http.headers }, authRef: http.auth_ref ?? '' } }),
    ...(http === null || http.oauth === null ? {} : { oauth: oauthToWire(http.oauth) }),
    toolNamespace: record.tool_namespace,
    allowedTools: [...record.allowed_tools],
    approvalPolicy: { defaultPolicy: approval.default, perTool: { ...approval.per_tool } },
    budgets: {
      toolTimeoutMs: BigInt(budgets.tool_timeout_ms),
      maxToolTimeoutMs: BigInt(budgets.max_tool_timeout_ms),
      maxConcurrency: BigInt(budgets.max_concurrency),
      maxToolOutputBytes: BigInt(budgets.max_tool_output_bytes),
      connectTimeoutMs: BigInt(budgets.connect_timeout_ms),
    },
    updatedAtMs: BigInt(record.updated_at_ms),
    toolPrefix: record.tool_prefix,
    // The only value that nodes without `era` accept.
    protocol: 'legacy',
    era: { protocol: record.protocol },
    tags: [...record.tags],
    ...(sandbox === null
      ? {}
      : {
          sandbox: {
            mode: sandbox.mode,
            network: sandbox.network,
            readOnlyPaths: [...sandbox.read_only_paths],
            writablePaths: [...sandbox.writable_paths],
          },
        }),
    strictSchemas: record.strict_schemas,
    ...presenceMessages(record),
    modRevision: BigInt(record.mod_revision),
  });
}

/** A server as input of `parseRecord`. */
export function wireToInput(wire: WireRecord): Record<string, unknown> {
  const transport = transportNames.get(wire.transport);
  // Zero means "not given"; an unknown number is given, and wrong.
  const unknownTransport = wire.transport === WireTransport.UNSPECIFIED ? undefined : String(wire.transport);
  return {
    server_id: wire.serverId,
    display_name: wire.displayName,
    transport: transport ?? unknownTransport,
    // Clients often send the block of the other transport as an empty message.
    stdio: transport !== undefined && usesStdio(transport) ? stdioInput(wire.stdio) : undefined,
    http: transport !== undefined && !usesStdio(transport) ? httpInput(wire.http, wire.oauth) : undefined,
    tool_namespace: wire.toolNamespace,
    tool_prefix: wire.toolPrefix,
    allowed_tools: wire.allowedTools,
    approval_policy: { default: wire.approvalPolicy?.defaultPolicy, per_tool: wire.approvalPolicy?.perTool },
    budgets: budgetsInput(wire.budgets),
    protocol: wire.era?.protocol ?? wire.protocol,
    tags: wire.tags,
    sandbox: sandboxInput(wire.sandbox),
    strict_schemas: wire.strictSchemas,
    ...presenceInput(wire),
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
}

/**
 * An upsert as input of `parseRecord`. Fields with numbers above 100 that the message leaves out keep their stored values: an
 * older client does not know them.
 */
export function upsertToInput(wire: WireRecord, stored: McpServerRecord | null): Record<string, unknown> {
  const { updated_at_ms: _updated, mod_revision: _revision, ...input } = wireToInput(wire);
  if (stored === null) return input;
  const { http } = input;
  const keepsOAuth = isJsonObject(http) && wire.oauth === undefined && stored.http?.oauth;
  const knowsOurFields = wire.toolPrefix !== undefined || wire.protocol !== undefined || wire.sandbox !== undefined;
  return {
    ...input,
    tool_prefix: wire.toolPrefix ?? stored.tool_prefix,
    // An older client sends "legacy" because it knows no other value.
    protocol: wire.era?.protocol ?? (wire.protocol === 'legacy' ? undefined : wire.protocol) ?? stored.protocol,
    tags: wire.tags.length > 0 || knowsOurFields ? wire.tags : stored.tags,
    // An http server has no sandbox, so one that stops being a stdio server loses it.
    sandbox: input.sandbox ?? (input.transport === 'stdio' ? stored.sandbox : undefined),
    strict_schemas: wire.strictSchemas ?? stored.strict_schemas,
    ...upsertedPresence(wire, stored),
    ...(keepsOAuth ? { http: { ...http, oauth: stored.http?.oauth } } : {}),
    budgets: {
      ...budgetsInput(wire.budgets),
      max_tool_timeout_ms: Number(wire.budgets?.maxToolTimeoutMs ?? stored.budgets.max_tool_timeout_ms),
      connect_timeout_ms: Number(wire.budgets?.connectTimeoutMs ?? stored.budgets.connect_timeout_ms),
    },
  };
}

/** The path of a field of a server as the message names it. */
export function wirePath(path: string): string {
  return path === 'approval_policy.default' ? 'approval_policy.default_policy' : path;
}

function stdioInput(stdio: WireRecord['stdio']) {
  return stdio && { command: stdio.command, args: stdio.args, env: stdio.env, cwd: stdio.cwd };
}

function httpInput(http: WireRecord['http'], oauth: WireRecord['oauth']) {
  return http && { url: http.url, headers: http.headers, auth_ref: http.authRef, oauth: oauthInput(oauth) };
}

function oauthInput(oauth: WireRecord['oauth']) {
  if (oauth === undefined || isEmpty(oauth)) return undefined;
  return {
    grant: oauth.grant,
    client_id: oauth.clientId,
    client_secret: oauth.clientSecret,
    private_key: oauth.privateKey,
    token_endpoint_auth_method: oauth.tokenEndpointAuthMethod,
    scopes: oauth.scopes,
    issuer: oauth.issuer,
    client_metadata_url: oauth.clientMetadataUrl,
  };
}

function isEmpty(oauth: NonNullable<WireRecord['oauth']>): boolean {
  const { $typeName: _type, $unknown: _unknown, scopes, ...texts } = oauth;
  return scopes.length === 0 && Object.values(texts).every((text) => text === '');
}

function oauthToWire(oauth: McpOAuth) {
  return {
    grant: oauth.grant,
    clientId: oauth.client_id ?? '',
    clientSecret: oauth.client_secret ?? '',
    privateKey: oauth.private_key ?? '',
    tokenEndpointAuthMethod: oauth.token_endpoint_auth_method ?? '',
    scopes: [...oauth.scopes],
    issuer: oauth.issuer ?? '',
    clientMetadataUrl: oauth.client_metadata_url ?? '',
  };
}

function budgetsInput(budgets: WireBudgets | undefined): Record<keyof McpBudgets, number> {
  return {
    tool_timeout_ms: Number(budgets?.toolTimeoutMs ?? 0),
    max_tool_timeout_ms: Number(budgets?.maxToolTimeoutMs ?? 0),
    max_concurrency: Number(budgets?.maxConcurrency ?? 0),
    max_tool_output_bytes: Number(budgets?.maxToolOutputBytes ?? 0),
    connect_timeout_ms: Number(budgets?.connectTimeoutMs ?? 0),
  };
}

function sandboxInput(sandbox: WireRecord['sandbox']) {
  return (
    sandbox && {
      mode: sandbox.mode,
      network: sandbox.network,
      read_only_paths: sandbox.readOnlyPaths,
      writable_paths: sandbox.writablePaths,
    }
  );
}

// Fields that are messages on the wire, so that a missing field differs from an empty one.

type MessageField =
  | 'repeatable'
  | 'pins'
  | 'connection_scope'
  | 'client_features'
  | 'allowed_resources'
  | 'allowed_prompts'
  | 'namespaces';

function presenceMessages(record: McpServerRecord) {
  const { elicitation, roots } = record.client_features;
  return {
    repeatable: { patterns: [...record.repeatable] },
    pins: { sha256: { ...record.pins } },
    connectionScope: { scope: record.connection_scope },
    clientFeatures: {
      elicitation: [...elicitation],
      roots: roots.map(({ uri, name }) => ({ uri, name: name ?? '' })),
    },
    allowedResources: { patterns: [...record.allowed_resources] },
    allowedPrompts: { patterns: [...record.allowed_prompts] },
    namespaces: { patterns: [...record.namespaces] },
  };
}

function presenceInput(wire: WireRecord): Record<MessageField, unknown> {
  const { clientFeatures } = wire;
  return {
    repeatable: wire.repeatable?.patterns,
    pins: wire.pins?.sha256,
    connection_scope: wire.connectionScope?.scope,
    client_features: clientFeatures && {
      elicitation: clientFeatures.elicitation,
      roots: clientFeatures.roots.map(({ uri, name }) => ({ uri, name })),
    },
    allowed_resources: wire.allowedResources?.patterns,
    allowed_prompts: wire.allowedPrompts?.patterns,
    namespaces: wire.namespaces?.patterns,
  };
}

/** Fields that an upsert leaves out keep their stored values. */
function upsertedPresence(wire: WireRecord, stored: McpServerRecord): Record<MessageField, unknown> {
  const given = presenceInput(wire);
  const fields = Object.keys(given) as MessageField[];
  return Object.fromEntries(fields.map((field) => [field, given[field] ?? stored[field]])) as typeof given;
}

export function profileToWire(profile: McpProfile): WireProfile {
  const { tool_allowlist: allowlist } = profile;
  return create(McpProfileSchema, {
    name: profile.name,
    description: profile.description,
    serverIds: [...profile.server_ids],
    serverTags: [...profile.server_tags],
    ...(allowlist === null ? {} : { toolAllowlist: { patterns: [...allowlist] } }),
    toolDenylist: [...profile.tool_denylist],
    allowedTools: Object.fromEntries(
      Object.entries(profile.allowed_tools).map(([id, patterns]) => [id, { patterns: [...patterns] }]),
    ),
    updatedAtMs: BigInt(profile.updated_at_ms),
    modRevision: BigInt(profile.mod_revision),
  });
}

/** A profile as input of `parseProfile`. */
export function wireToProfileInput(wire: WireProfile): Record<string, unknown> {
  return {
    ...profileContent(wire),
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
}

/** A profile of an upsert, without the fields that the store writes. */
export function profileContent(wire: WireProfile): Record<string, unknown> {
  return {
    name: wire.name,
    description: wire.description,
    server_ids: wire.serverIds,
    server_tags: wire.serverTags,
    tool_allowlist: wire.toolAllowlist?.patterns ?? null,
    tool_denylist: wire.toolDenylist,
    allowed_tools: Object.fromEntries(Object.entries(wire.allowedTools).map(([id, { patterns }]) => [id, patterns])),
  };
}

export function stopToWire(stop: StopRecord): WireStop {
  return create(StopSchema, {
    stopId: stop.stop_id,
    scope: stop.scope,
    name: stop.name,
    effect: stop.effect,
    reason: stop.reason,
    createdBy: stop.created_by,
    createdAtMs: BigInt(stop.created_at_ms),
    updatedAtMs: BigInt(stop.updated_at_ms),
    modRevision: BigInt(stop.mod_revision),
  });
}

/** A stop as input of its kind. A stop that this version does not understand must not be ignored: it applies to everything. */
export function wireToStopInput(wire: WireStop): Record<string, unknown> {
  const input = {
    stop_id: wire.stopId,
    scope: wire.scope,
    name: wire.name,
    effect: wire.effect,
    reason: wire.reason,
    created_by: wire.createdBy,
    created_at_ms: Number(wire.createdAtMs),
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
  if (stopKind.parse(input, { strict: false }).ok) return input;
  return { ...input, scope: 'all', name: '', effect: 'stop', reason: 'a stop that this version cannot read' };
}

export function taskToWire(task: TaskRecord): WireTask {
  return create(TaskRecordSchema, {
    taskId: task.task_id,
    namespace: task.namespace,
    name: task.name,
    ...(task.live === null ? {} : { live: revisionToWire(task.live) }),
    lastRevision: BigInt(task.last_revision),
    fromFile: task.from_file ?? '',
    updatedAtMs: BigInt(task.updated_at_ms),
    modRevision: BigInt(task.mod_revision),
  });
}

export function revisionToWire(revision: TaskRevision): WireRevision {
  return create(TaskRevisionSchema, {
    revision: BigInt(revision.revision),
    digest: revision.digest,
    createdAtMs: BigInt(revision.created_at_ms),
    createdBy: revision.created_by,
    contentJson: taskContentText(revision),
  });
}

/** A task as input of its kind. */
export function wireToTaskInput(wire: WireTask): Record<string, unknown> {
  return {
    task_id: wire.taskId,
    namespace: wire.namespace,
    name: wire.name,
    live: wire.live === undefined ? null : wireToRevisionInput(wire.live),
    last_revision: Number(wire.lastRevision),
    from_file: wire.fromFile === '' ? null : wire.fromFile,
    file_digest: null,
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
}

export function wireToRevisionInput(wire: WireRevision): Record<string, unknown> {
  return {
    ...(parseJson(wire.contentJson) as Record<string, unknown> | undefined),
    revision: Number(wire.revision),
    digest: wire.digest,
    created_at_ms: Number(wire.createdAtMs),
    created_by: wire.createdBy,
  };
}
