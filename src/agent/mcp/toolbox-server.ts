import { unknownKey } from '../../base/validation.ts';
import type { OptionKeys } from '../../config/option-keys.ts';
import {
  type ApprovalMode,
  type ElicitationMode,
  type McpProtocol,
  type McpServerRecord,
  parseRecord,
  type SandboxMode,
  type SandboxNetwork,
} from '../../server/records/server.ts';
import { McpConnectionError } from './client/errors.ts';

/** One MCP server of a program that embeds Spear. */
export interface ToolboxServer {
  /** The rules of a record's `server_id`; no two servers of a toolbox have the same. */
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
  /** Patterns of URIs of resources that may be read. @default none */
  readonly enabledResources?: readonly string[];
  /** Patterns of prompts that may be got. @default none */
  readonly enabledPrompts?: readonly string[];
  /** Which calls need an approval, by `ToolboxOptions.approve`; `perTool` maps patterns of tools. @default never */
  readonly approval?:
    | ApprovalMode
    | { readonly default?: ApprovalMode; readonly perTool?: Readonly<Record<string, ApprovalMode>> };
  /** Deadline of one call, at most an hour. @default 30000 */
  readonly timeoutMs?: number;
  /** Larger results are cut; at most 10 MiB. @default 65536 */
  readonly maxOutputBytes?: number;
  /** Deadline of connecting. @default 60000 */
  readonly connectTimeoutMs?: number;
  /** MCP protocol: `auto` probes the server; `legacy` or a version uses only that. @default auto */
  readonly protocol?: McpProtocol;
  /** User input that the server may request (answered by `ToolboxOptions.elicit`), and roots sent to it. @default nothing */
  readonly clientFeatures?: {
    readonly elicitation?: readonly ElicitationMode[];
    readonly roots?: readonly { readonly uri: string; readonly name?: string }[];
  };
  /** Environment of a stdio server, which inherits nothing else from this process. @default none */
  readonly env?: Readonly<Record<string, string>>;
  /** How a stdio server is confined by bubblewrap: it sees /usr, its own directories and the listed paths. @default not at all */
  readonly sandbox?: {
    /** @default required */
    readonly mode?: SandboxMode;
    /** @default allow */
    readonly network?: SandboxNetwork;
    readonly readOnlyPaths?: readonly string[];
    readonly writablePaths?: readonly string[];
  };
}

const serverKeys: OptionKeys<ToolboxServer> = {
  name: true,
  transport: true,
  toolPrefix: true,
  enabledTools: true,
  disabledTools: true,
  enabledResources: true,
  enabledPrompts: true,
  approval: true,
  timeoutMs: true,
  maxOutputBytes: true,
  connectTimeoutMs: true,
  protocol: true,
  clientFeatures: true,
  env: true,
  sandbox: true,
};

const sandboxKeys: OptionKeys<NonNullable<ToolboxServer['sandbox']>> = {
  mode: true,
  network: true,
  readOnlyPaths: true,
  writablePaths: true,
};

const featureKeys: OptionKeys<NonNullable<ToolboxServer['clientFeatures']>> = { elicitation: true, roots: true };

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_CONNECT_TIMEOUT_MS = 60_000;

/** @throws McpConnectionError naming the server and the field that is wrong */
export function toRecords(servers: readonly ToolboxServer[]): McpServerRecord[] {
  const names = new Set<string>();
  for (const server of servers) {
    const { name } = server;
    const unknown =
      unknownKey(server, Object.keys(serverKeys)) ??
      prefixed('sandbox', unknownKey(server.sandbox ?? {}, Object.keys(sandboxKeys))) ??
      prefixed('clientFeatures', unknownKey(server.clientFeatures ?? {}, Object.keys(featureKeys)));
    if (unknown !== null) throw unusable(name, unknown);
    if (names.has(name)) throw unusable(name, 'two servers have this name');
    names.add(name);
  }
  return servers.map(toRecord);
}

const prefixed = (field: string, problem: string | null) => (problem === null ? null : `${field}: ${problem}`);

function toRecord(server: ToolboxServer): McpServerRecord {
  const { name, transport } = server;
  const parsed = parseRecord(
    {
      server_id: name,
      transport: transport.kind,
      tool_prefix: server.toolPrefix ?? name,
      allowed_tools: server.enabledTools ?? ['*'],
      allowed_resources: server.enabledResources ?? [],
      allowed_prompts: server.enabledPrompts ?? [],
      ...(server.sandbox === undefined ? {} : { sandbox: sandboxOf(server.sandbox) }),
      approval_policy: approvalPolicy(server.approval ?? 'never'),
      protocol: server.protocol ?? 'auto',
      ...(server.clientFeatures === undefined ? {} : { client_features: server.clientFeatures }),
      budgets: {
        tool_timeout_ms: server.timeoutMs ?? DEFAULT_TIMEOUT_MS,
        ...(server.maxOutputBytes === undefined ? {} : { max_tool_output_bytes: server.maxOutputBytes }),
        connect_timeout_ms: server.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS,
      },
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
  throw unusable(name, parsed.issues.map(({ path, message }) => `${path} ${message}`).join('; '));
}

function sandboxOf({ readOnlyPaths = [], writablePaths = [], ...rest }: NonNullable<ToolboxServer['sandbox']>) {
  return { ...rest, read_only_paths: readOnlyPaths, writable_paths: writablePaths };
}

function approvalPolicy(approval: NonNullable<ToolboxServer['approval']>) {
  if (typeof approval === 'string') return { default: approval };
  return { default: approval.default ?? 'never', per_tool: approval.perTool ?? {} };
}

function unusable(name: string, why: string): McpConnectionError {
  return new McpConnectionError(name, 'record_invalid', `the server ${JSON.stringify(name)} cannot be used: ${why}`);
}
