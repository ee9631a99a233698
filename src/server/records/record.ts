import { isInheritedName } from '../../base/inherited-name.ts';

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
  /** Patterns: tools whose calls do no harm when they are made once more. */
  readonly repeatable: readonly string[];
  /** Tool name to the sha256 of the definition that was reviewed; a tool with another one is held back. */
  readonly pins: Readonly<Record<string, string>>;
  readonly connection_scope: ConnectionScope;
  readonly client_features: McpClientFeatures;
  /** Patterns over URIs; an empty list denies every resource. */
  readonly allowed_resources: readonly string[];
  /** Patterns; an empty list denies every prompt. */
  readonly allowed_prompts: readonly string[];
  /** Patterns: the namespaces whose tasks may use the server; an empty list is none. */
  readonly namespaces: readonly string[];
  /** Set by the store. */
  readonly updated_at_ms: number;
  /** The revision of the store at which this record last changed; 0 outside a store. */
  readonly mod_revision: number;
}

export const mcpTransports = ['stdio', 'streamable_http', 'http_sse_legacy'] as const;
export type McpTransport = (typeof mcpTransports)[number];

/**
 * Which protocol is spoken with a server: `auto` asks it, `legacy` is the one that begins with `initialize`, a version
 * is that one and no other. Records outlive versions: a node takes one that it does not know for `legacy`.
 */
export type McpProtocol = 'auto' | 'legacy' | `${number}-${number}-${number}`;

export function isMcpProtocol(text: string): text is McpProtocol {
  return text === 'auto' || text === 'legacy' || /^\d{4}-\d{2}-\d{2}$/.test(text);
}

export const approvalModes = ['never', 'always', 'policy'] as const;
export type ApprovalMode = (typeof approvalModes)[number];

export const sandboxModes = ['none', 'preferred', 'required'] as const;
export type SandboxMode = (typeof sandboxModes)[number];

/** What a node does with stdio servers: as their records say, never without a sandbox, or not at all. */
export const stdioPolicies = ['allow', 'sandboxed', 'deny'] as const;
export type StdioPolicy = (typeof stdioPolicies)[number];

export const sandboxNetworks = ['allow', 'deny'] as const;
export type SandboxNetwork = (typeof sandboxNetworks)[number];

/** Who shares a connection to the server: the calls of one run, the runs of one task, or all of a node. */
export const connectionScopes = ['run', 'task', 'node'] as const;
export type ConnectionScope = (typeof connectionScopes)[number];

export const elicitationModes = ['form', 'url'] as const;
export type ElicitationMode = (typeof elicitationModes)[number];

export const oauthGrants = ['client_credentials', 'authorization_code'] as const;
export type OAuthGrant = (typeof oauthGrants)[number];

/** How the client proves to the authorization server who it is. */
export const oauthClientAuths = ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'] as const;
export type OAuthClientAuth = (typeof oauthClientAuths)[number];

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
  readonly oauth: McpOAuth | null;
}

/** How the node gets a token for the server. */
export interface McpOAuth {
  readonly grant: OAuthGrant;
  readonly client_id: string | null;
  /** `env:NAME` or `file:PATH`. */
  readonly client_secret: string | null;
  /** `env:NAME` or `file:PATH`, of a key in PEM. */
  readonly private_key: string | null;
  readonly token_endpoint_auth_method: OAuthClientAuth | null;
  /** The most that is asked for; empty: what the server says it needs. */
  readonly scopes: readonly string[];
  /** The only authorization server that gets to see the client's credentials. */
  readonly issuer: string | null;
  /** Where this client describes itself, for authorization servers that take that as its id. */
  readonly client_metadata_url: string | null;
}

export interface McpApprovalPolicy {
  readonly default: ApprovalMode;
  /** Tool name pattern to mode. */
  readonly per_tool: Readonly<Record<string, ApprovalMode>>;
}

export interface McpBudgets {
  readonly tool_timeout_ms: number;
  /** How long a call may take whose server goes on telling of progress; 0: that puts nothing off. */
  readonly max_tool_timeout_ms: number;
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

/** What the server may ask of us. */
export interface McpClientFeatures {
  /** The ways in which it may ask the user something; empty: none. */
  readonly elicitation: readonly ElicitationMode[];
  readonly roots: readonly McpRoot[];
}

/** A place that the server is told of. */
export interface McpRoot {
  /** `file://…` */
  readonly uri: string;
  readonly name: string | null;
}

/** What is wrong with a record and where: `stdio.env.TOKEN`, `allowed_tools[2]`. Never holds a value of the record. */
export interface RecordIssue {
  readonly path: string;
  readonly message: string;
}

const serverIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export const serverIdRule =
  '1 to 64 characters: letters, digits, ".", "_" and "-", starting with a letter or digit, and not a name that every ' +
  'JavaScript object has, such as "constructor"';

export function isServerId(text: string): boolean {
  return serverIdPattern.test(text) && !isInheritedName(text);
}

export function usesStdio(transport: McpTransport): boolean {
  return transport === 'stdio';
}
