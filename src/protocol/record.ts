/**
 * One MCP server as the registry knows it. A record of this type is complete, validated and deeply frozen: every
 * default is filled in, and what is absent is `null`. `parseRecord` (record-schema.ts) is the only way to make one
 * from outside data.
 */
export interface McpServerRecord {
  readonly server_id: string;
  readonly display_name: string;
  readonly transport: McpTransport;
  /** Present exactly when the transport is `stdio`. */
  readonly stdio: McpStdioConfig | null;
  /** Present exactly when the transport is one of the http ones. */
  readonly http: McpHttpConfig | null;
  /** Prefix of the dotted alias of its tools. */
  readonly tool_namespace: string;
  /** Prefix of the readable tool names. */
  readonly tool_prefix: string;
  /** Patterns; an empty list denies every tool. */
  readonly allowed_tools: readonly string[];
  readonly approval_policy: McpApprovalPolicy;
  readonly budgets: McpBudgets;
  readonly protocol: McpProtocol;
  readonly tags: readonly string[];
  readonly sandbox: McpSandbox | null;
  /** Whether a call is refused whose arguments cannot be checked, because of the tool's schema. */
  readonly strict_schemas: boolean;
  /** Set by the store. */
  readonly updated_at_ms: number;
  /** The revision of the store at which this record last changed; 0 outside a store. */
  readonly mod_revision: number;
}

export const mcpTransports = ['stdio', 'streamable_http', 'http_sse_legacy'] as const;
export type McpTransport = (typeof mcpTransports)[number];

export const mcpProtocols = ['legacy'] as const;
export type McpProtocol = (typeof mcpProtocols)[number];

export const approvalModes = ['never', 'always', 'policy'] as const;
export type ApprovalMode = (typeof approvalModes)[number];

export const sandboxModes = ['none', 'preferred', 'required'] as const;
export type SandboxMode = (typeof sandboxModes)[number];

/** What a node does with stdio servers: as their records say, never without a sandbox, or not at all. */
export const stdioPolicies = ['allow', 'sandboxed', 'deny'] as const;
export type StdioPolicy = (typeof stdioPolicies)[number];

export const sandboxNetworks = ['allow', 'deny'] as const;
export type SandboxNetwork = (typeof sandboxNetworks)[number];

export interface McpStdioConfig {
  readonly command: string;
  readonly args: readonly string[];
  /** Values may hold references; they are resolved on the node that connects. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | null;
}

export interface McpHttpConfig {
  /** May hold references. */
  readonly url: string;
  /** Values may hold references. */
  readonly headers: Readonly<Record<string, string>>;
  /** `env:NAME` or `file:PATH`. */
  readonly auth_ref: string | null;
}

export interface McpApprovalPolicy {
  readonly default: ApprovalMode;
  /** Tool name pattern to mode. */
  readonly per_tool: Readonly<Record<string, ApprovalMode>>;
}

export interface McpBudgets {
  readonly tool_timeout_ms: number;
  readonly max_concurrency: number;
  readonly max_tool_output_bytes: number;
  readonly connect_timeout_ms: number;
}

export interface McpSandbox {
  readonly mode: SandboxMode;
  readonly network: SandboxNetwork;
  readonly read_only_paths: readonly string[];
  readonly writable_paths: readonly string[];
}

/** What is wrong with a record and where: `stdio.env.TOKEN`, `allowed_tools[2]`. Never holds a value of the record. */
export interface RecordIssue {
  readonly path: string;
  readonly message: string;
}

const serverIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export const serverIdRule = '1 to 64 characters: letters, digits, ".", "_" and "-", starting with a letter or digit';

export function isServerId(text: string): boolean {
  return serverIdPattern.test(text);
}

export function usesStdio(transport: McpTransport): boolean {
  return transport === 'stdio';
}
