import { create } from '@bufbuild/protobuf';
import { isJsonObject } from '../../base/json.ts';
import {
  McpServerRecordSchema,
  type McpBudgets as WireBudgets,
  type McpServerRecord as WireRecord,
  McpTransport as WireTransport,
} from '../../generated/proto/sms/mcp_server_record_pb.ts';
import { type McpBudgets, type McpOAuth, type McpServerRecord, type McpTransport, usesStdio } from './record.ts';
import { ourMessages, ourMessagesInput, upsertedMessages } from './record-messages.ts';

const wireTransports: Readonly<Record<McpTransport, WireTransport>> = {
  stdio: WireTransport.STDIO,
  streamable_http: WireTransport.STREAMABLE_HTTP,
  http_sse_legacy: WireTransport.HTTP_SSE_LEGACY,
};
const transportNames = new Map(Object.entries(wireTransports).map(([name, number]) => [number, name as McpTransport]));

/** Every field is given, so that a reader need not know the defaults. */
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
    // All that a node without eras takes.
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
    ...ourMessages(record),
    modRevision: BigInt(record.mod_revision),
  });
}

/** What a peer sent, in the shape that `parseRecord` takes. Nothing is checked here. */
export function wireToInput(wire: WireRecord): Record<string, unknown> {
  const transport = transportNames.get(wire.transport);
  // Zero means "not given"; a number that we do not know is given, and wrong.
  const unknownTransport = wire.transport === WireTransport.UNSPECIFIED ? undefined : String(wire.transport);
  return {
    server_id: wire.serverId,
    display_name: wire.displayName,
    transport: transport ?? unknownTransport,
    // A block that is not the transport's own is often just an empty message.
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
    ...ourMessagesInput(wire),
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
}

/**
 * An upsert as `parseRecord` takes it. Fields of ours that it leaves out keep what is stored: whoever sent it may
 * never have heard of them.
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
    // An older client says "legacy" because it knows nothing else.
    protocol: wire.era?.protocol ?? (wire.protocol === 'legacy' ? undefined : wire.protocol) ?? stored.protocol,
    tags: wire.tags.length > 0 || knowsOurFields ? wire.tags : stored.tags,
    // An http server has no sandbox, so one that stops being a stdio server loses it.
    sandbox: input.sandbox ?? (input.transport === 'stdio' ? stored.sandbox : undefined),
    strict_schemas: wire.strictSchemas ?? stored.strict_schemas,
    ...upsertedMessages(wire, stored),
    ...(keepsOAuth ? { http: { ...http, oauth: stored.http?.oauth } } : {}),
    budgets: {
      ...budgetsInput(wire.budgets),
      max_tool_timeout_ms: Number(wire.budgets?.maxToolTimeoutMs ?? stored.budgets.max_tool_timeout_ms),
      connect_timeout_ms: Number(wire.budgets?.connectTimeoutMs ?? stored.budgets.connect_timeout_ms),
    },
  };
}

/** The path of a record's field as the message calls it. */
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
