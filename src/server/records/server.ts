/**
 * A registered MCP server: fields, limits, defaults, rules between fields, and warnings.
 *
 * Invariants
 * - `parseRecord` is the only way to make a record from outside data. A record is complete and deeply frozen: every default
 *   is filled in, and an absent block is `null`.
 * - `stdio` is set exactly when the transport is `stdio`, `http` exactly when it is one of the HTTP transports.
 * - Neither errors nor warnings repeat a value of the record.
 * - References (`${ENV:NAME}`, `env:NAME`, `file:PATH`) stay text here; the node that connects resolves them.
 *
 * The schema is the single definition of the fields. The protobuf form is in wire.ts, masking in mask.ts.
 */
import { z } from 'zod';
import { textProblem } from '../../base/text.ts';
import { patternProblem } from '../../runtime/port/policy-layers.ts';
import { hasReference, literalParts, referenceTo } from '../secrets/references.ts';
import { credentialArguments, looksLikeCredential, urlHasCredential } from './credentials.ts';
import {
  argumentProblem,
  authRefProblem,
  type BudgetRange,
  budgetRanges,
  envNameProblem,
  envValueProblem,
  headerNameProblem,
  headerValueProblem,
  isServerId,
  plainUrlProblem,
  prefixProblem,
  recordLimits,
  rootUriProblem,
  scopeProblem,
  secretReferenceProblem,
  serverIdRule,
  sha256Problem,
  toolNameProblem,
  urlHasUser,
  urlProblem,
  variableNameProblem,
} from './field-rules.ts';
import {
  checked,
  deepFreeze,
  type Frozen,
  list,
  MAX_REPORTED,
  map,
  optional,
  orDefault,
  pathText,
  readFields,
  storeStamps,
  unknownFields,
} from './fields.ts';
import type { Parsed, ParseOptions, RecordIssue, RecordKind } from './record-kind.ts';

export const mcpTransports = ['stdio', 'streamable_http', 'http_sse_legacy'] as const;
export type McpTransport = (typeof mcpTransports)[number];

/**
 * Protocol spoken with a server: `auto` negotiates, `legacy` begins with `initialize`, a version means that version alone.
 * Records outlive versions of this program: an unknown protocol is read as `legacy`.
 */
export type McpProtocol = 'auto' | 'legacy' | `${number}-${number}-${number}`;

export function isMcpProtocol(text: string): text is McpProtocol {
  return text === 'auto' || text === 'legacy' || /^\d{4}-\d{2}-\d{2}$/.test(text);
}

export const approvalModes = ['never', 'always', 'policy'] as const;
export type ApprovalMode = (typeof approvalModes)[number];

export const sandboxModes = ['none', 'preferred', 'required'] as const;
export type SandboxMode = (typeof sandboxModes)[number];

export const sandboxNetworks = ['allow', 'deny'] as const;
export type SandboxNetwork = (typeof sandboxNetworks)[number];

/** Who shares a connection to the server: the calls of one run, the runs of one task, or all runs of a node. */
export const connectionScopes = ['run', 'task', 'node'] as const;
export type ConnectionScope = (typeof connectionScopes)[number];

export const elicitationModes = ['form', 'url'] as const;
export type ElicitationMode = (typeof elicitationModes)[number];

export const oauthGrants = ['client_credentials', 'authorization_code'] as const;

/** How the client authenticates to the authorization server. */
export const oauthClientAuths = ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'] as const;
export type OAuthClientAuth = (typeof oauthClientAuths)[number];

export function usesStdio(transport: McpTransport): boolean {
  return transport === 'stdio';
}

const path = checked((text) => textProblem(text, recordLimits.pathChars));
export const serverId = checked((text) => (isServerId(text) ? null : `must be ${serverIdRule}`));
export const tag = checked((text) => textProblem(text, recordLimits.tagChars));
export const pattern = checked(patternProblem);
export const patterns = list(pattern, recordLimits.patterns);

const stdioSchema = z.object({
  command: path,
  args: list(checked(argumentProblem), recordLimits.args),
  /** Values may hold references. */
  env: map(envNameProblem, checked(envValueProblem), recordLimits.envEntries),
  cwd: optional(path),
  /** Shorthand in files: `env.X = "${ENV:X}"` for every name. */
  env_from: list(checked(variableNameProblem), recordLimits.envEntries),
});

/** How the node gets a token for the server. Secrets are references: `env:NAME` or `file:PATH`. */
const oauthSchema = z.object({
  grant: z.enum(oauthGrants),
  client_id: optional(checked((text) => textProblem(text, recordLimits.clientIdChars))),
  client_secret: optional(checked(secretReferenceProblem)),
  /** Reference to a key in PEM. */
  private_key: optional(checked(secretReferenceProblem)),
  token_endpoint_auth_method: optional(z.enum(oauthClientAuths)),
  /** The most that is requested; empty: what the server says it needs. */
  scopes: list(checked(scopeProblem), recordLimits.scopes),
  /** The only authorization server that receives the client's credentials. */
  issuer: optional(checked(plainUrlProblem)),
  /** URL of this client's metadata, for authorization servers that accept a URL as client id. */
  client_metadata_url: optional(checked(plainUrlProblem)),
});

const httpSchema = z.object({
  /** May hold references. */
  url: checked(urlProblem),
  /** Values may hold references. */
  headers: map(headerNameProblem, checked(headerValueProblem), recordLimits.headers),
  /** `env:NAME` or `file:PATH`. */
  auth_ref: optional(checked(authRefProblem)),
  oauth: optional(oauthSchema),
});

const approvalSchema = z.object({
  default: orDefault(z.enum(approvalModes), 'never'),
  /** Tool name pattern to mode. */
  per_tool: map(patternProblem, z.enum(approvalModes), recordLimits.patterns),
});

const budgetsSchema = z.object({
  tool_timeout_ms: budget(budgetRanges.tool_timeout_ms),
  /** Longest duration of a call that keeps reporting progress; 0: progress does not extend the deadline. */
  max_tool_timeout_ms: budget(budgetRanges.max_tool_timeout_ms),
  max_concurrency: budget(budgetRanges.max_concurrency),
  max_tool_output_bytes: budget(budgetRanges.max_tool_output_bytes),
  connect_timeout_ms: budget(budgetRanges.connect_timeout_ms),
});

/** A sandbox block without a mode requires the sandbox. */
const sandboxSchema = z.object({
  mode: orDefault(z.enum(sandboxModes), 'required'),
  network: orDefault(z.enum(sandboxNetworks), 'allow'),
  read_only_paths: list(path, recordLimits.sandboxPaths),
  writable_paths: list(path, recordLimits.sandboxPaths),
});

/** What the server may request from this client. */
const clientFeaturesSchema = z.object({
  /** Ways in which the server may ask the user; empty: none. */
  elicitation: list(z.enum(elicitationModes), elicitationModes.length),
  /** MCP roots that the server can list. */
  roots: list(
    z.object({
      /** `file://…` */
      uri: checked(rootUriProblem),
      name: optional(checked((text) => textProblem(text, recordLimits.rootNameChars))),
    }),
    recordLimits.roots,
  ),
});

/** Field order is the order in JSON output. */
const serverSchema = z.object({
  version: optional(z.literal(1)),
  server_id: serverId,
  /** Default: the id. */
  display_name: optional(checked((text) => textProblem(text, recordLimits.displayNameChars))),
  transport: z.enum(mcpTransports),
  stdio: optional(stdioSchema),
  http: optional(httpSchema),
  /** Prefix of the dotted alias of its tools. Default: `mcp.` and the id. */
  tool_namespace: optional(checked(prefixProblem)),
  /** Prefix of the readable tool names. Default: the id. */
  tool_prefix: optional(checked(prefixProblem)),
  /** An empty list denies every tool. */
  allowed_tools: patterns,
  approval_policy: orDefault(approvalSchema, {}),
  budgets: orDefault(budgetsSchema, {}),
  protocol: orDefault(z.string(), 'auto'),
  tags: list(tag, recordLimits.tags),
  /** Whether to refuse a call whose arguments cannot be checked against the tool's schema. */
  strict_schemas: orDefault(z.boolean(), false),
  /** Tools whose calls are safe to repeat. */
  repeatable: patterns,
  /** Tool name to the sha256 of its reviewed definition; a tool with another definition is withheld. */
  pins: map(toolNameProblem, checked(sha256Problem), recordLimits.pins),
  connection_scope: orDefault(z.enum(connectionScopes), 'task'),
  client_features: orDefault(clientFeaturesSchema, {}),
  /** Patterns over URIs; an empty list denies every resource. */
  allowed_resources: patterns,
  /** An empty list denies every prompt. */
  allowed_prompts: patterns,
  /** Namespaces whose tasks may use the server; an empty list is none. */
  namespaces: orDefault(z.array(pattern).max(recordLimits.patterns), ['*']),
  sandbox: optional(sandboxSchema),
  ...storeStamps,
});

type ServerShape = z.output<typeof serverSchema>;
type HttpShape = z.output<typeof httpSchema>;

export type McpStdioConfig = Omit<Frozen<z.output<typeof stdioSchema>>, 'env_from'>;
export type McpHttpConfig = Frozen<HttpShape>;
export type McpOAuth = Frozen<z.output<typeof oauthSchema>>;
export type McpApprovalPolicy = Frozen<z.output<typeof approvalSchema>>;
export type McpBudgets = Frozen<z.output<typeof budgetsSchema>>;
export type McpSandbox = Frozen<z.output<typeof sandboxSchema>>;
export type McpRoot = McpServerRecord['client_features']['roots'][number];
type Completed = 'version' | 'display_name' | 'stdio' | 'tool_namespace' | 'tool_prefix' | 'protocol';

/** One MCP server as the registry stores it. */
export interface McpServerRecord extends Frozen<Omit<ServerShape, Completed>> {
  readonly display_name: string;
  readonly stdio: McpStdioConfig | null;
  readonly tool_namespace: string;
  readonly tool_prefix: string;
  readonly protocol: McpProtocol;
}

export const serverKind: RecordKind<McpServerRecord> = {
  name: 'server',
  idField: 'server_id',
  isId: isServerId,
  parse: parseRecord,
  repair: (id) => `apply it again with "spear servers apply FILE", or remove it with "spear servers rm ${id}"`,
};

/** Validates outside data and completes it with the defaults. */
export function parseRecord(input: unknown, options: ParseOptions): Parsed<McpServerRecord> {
  const unknown = unknownFields(input, serverSchema).map((path) => ({ path, message: 'is not a field of a server' }));
  const read = readFields(serverSchema, input);
  const refused = options.strict ? unknown : [];
  if ('issues' in read) return rejected([...read.issues, ...refused]);
  const { shape } = read;
  const badProtocol = isMcpProtocol(shape.protocol) ? [] : [{ path: 'protocol', message: PROTOCOL_RULE }];

  const issues = [...refused, ...(options.strict ? badProtocol : []), ...contradictions(shape, options)];
  if (issues.length > 0) return rejected(issues);

  const record = complete(shape);
  // The stored text has the same length: it holds the same fields in another order.
  const bytes = Buffer.byteLength(JSON.stringify(record));
  if (bytes > recordLimits.recordBytes) {
    const message = `the server has ${bytes} bytes; the limit is ${recordLimits.recordBytes}`;
    return rejected([{ path: '', message }]);
  }
  const warnings = [...unknown, ...badProtocol, ...ignoredBlocks(shape), ...likelyMistakes(record)];
  return { ok: true, record: deepFreeze(record), warnings: warnings.slice(0, MAX_REPORTED) };
}

const PROTOCOL_RULE = 'must be "auto", "legacy" or a version like "2026-07-28"';

function rejected(issues: readonly RecordIssue[]): Parsed<McpServerRecord> {
  return { ok: false, issues: issues.slice(0, MAX_REPORTED) };
}

/** Fills in the defaults that depend on other fields. */
function complete({ version: _version, ...shape }: ServerShape): McpServerRecord {
  const { server_id, transport, stdio, http, protocol } = shape;
  return {
    ...shape,
    display_name: shape.display_name ?? server_id,
    stdio: stdio === null || !usesStdio(transport) ? null : withReferences(stdio),
    http: usesStdio(transport) ? null : http,
    tool_namespace: shape.tool_namespace ?? `mcp.${server_id}`,
    tool_prefix: shape.tool_prefix ?? server_id,
    protocol: isMcpProtocol(protocol) ? protocol : 'legacy',
  };
}

/** Replaces `env_from` by the references that it stands for. */
function withReferences({ env_from, ...stdio }: z.output<typeof stdioSchema>): McpStdioConfig {
  return { ...stdio, env: { ...stdio.env, ...Object.fromEntries(env_from.map((name) => [name, referenceTo(name)])) } };
}

function budget(range: BudgetRange) {
  const number = z.int().min(range.min).max(range.max);
  const given = z.preprocess((value) => (value === undefined || value === 0 ? null : value), number.nullable());
  return given.transform((value) => value ?? range.default);
}

/** Rules between fields. */
function contradictions(shape: ServerShape, options: ParseOptions): RecordIssue[] {
  const issues: RecordIssue[] = [];
  const stdio = usesStdio(shape.transport);
  const needed = stdio ? 'stdio' : 'http';
  if (shape[needed] === null) issues.push({ path: needed, message: `is required for transport "${shape.transport}"` });
  if (shape.sandbox !== null && !stdio) {
    issues.push({ path: 'sandbox', message: 'only a stdio server can run in a sandbox' });
  }
  if (options.fromFile !== true && (shape.stdio?.env_from.length ?? 0) > 0) {
    issues.push({
      path: 'stdio.env_from',
      message: `is allowed in files only; write env.NAME = "${referenceTo('NAME')}" instead`,
    });
  }
  for (const name of shape.stdio?.env_from ?? []) {
    if (!Object.hasOwn(shape.stdio?.env ?? {}, name)) continue;
    issues.push({ path: pathText(['stdio', 'env', name]), message: 'is also set in env_from' });
  }
  const seen = new Set<string>();
  for (const name of Object.keys(shape.http?.headers ?? {})) {
    const folded = name.toLowerCase();
    if (seen.has(folded)) issues.push({ path: pathText(['http', 'headers', name]), message: 'is set twice' });
    seen.add(folded);
  }
  if (shape.http !== null) issues.push(...oauthContradictions(shape.http));
  return issues;
}

/** Rules between the fields of an `http` block that has an `oauth` one. */
function oauthContradictions(http: HttpShape): RecordIssue[] {
  const { oauth } = http;
  if (oauth === null) return [];
  const issues: RecordIssue[] = [];
  const complain = (field: string, message: string) =>
    issues.push({ path: pathText(['http', 'oauth', ...(field === '' ? [] : [field])]), message });
  const rival = rivalOf(http);
  if (rival !== null) complain('', `cannot be combined with ${rival}: both set the Authorization header`);
  for (const [field, message] of credentialProblems(oauth)) complain(field, message);
  return issues;
}

function rivalOf({ url, headers, auth_ref }: HttpShape): string | null {
  if (auth_ref !== null) return 'auth_ref';
  if (Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) return 'an Authorization header';
  return urlHasUser(url) ? 'a user in the url' : null;
}

function credentialProblems(oauth: McpOAuth): (readonly [field: string, message: string])[] {
  const { grant, client_id, client_secret, private_key, token_endpoint_auth_method: method } = oauth;
  const problems: (readonly [string, string])[] = [];
  if (client_secret !== null && private_key !== null) {
    problems.push(['private_key', 'cannot be combined with client_secret: use one client authentication method']);
  }
  if (client_id === null && (grant === 'client_credentials' || client_secret !== null || private_key !== null)) {
    problems.push(['client_id', 'is required with client_secret or private_key']);
  }
  if (grant === 'client_credentials' && client_secret === null && private_key === null) {
    problems.push(['client_secret', 'or private_key is required for grant "client_credentials"']);
  }
  const needed = method === null ? null : credentialOf[method];
  if (needed === 'none' && (client_secret !== null || private_key !== null)) {
    problems.push(['token_endpoint_auth_method', 'is "none", but client_secret or private_key is set']);
  } else if (needed !== null && needed !== 'none' && oauth[needed] === null) {
    problems.push(['token_endpoint_auth_method', `needs ${needed}`]);
  }
  return problems;
}

const credentialOf = {
  client_secret_basic: 'client_secret',
  client_secret_post: 'client_secret',
  private_key_jwt: 'private_key',
  none: 'none',
} as const;

function ignoredBlocks(shape: ServerShape): RecordIssue[] {
  const other = usesStdio(shape.transport) ? 'http' : 'stdio';
  if (shape[other] === null) return [];
  return [{ path: other, message: `is ignored: the transport is "${shape.transport}"` }];
}

/** Warnings about values that are valid and probably a mistake. */
function likelyMistakes(record: McpServerRecord): RecordIssue[] {
  const { stdio, http } = record;
  const warnings: RecordIssue[] = [];
  const warn = (path: readonly PropertyKey[], message: string) => warnings.push({ path: pathText(path), message });
  const inspect = (path: readonly PropertyKey[], name: string, value: string) => {
    if (looksLikeCredential(name, value))
      warn(path, `looks like a plaintext credential; use a reference: ${referenceTo('NAME')}`);
    if (literalParts(value).some((part) => part.includes('${'))) {
      warn(
        path,
        `has a "\${" that is not a reference and is passed through unchanged; write a reference as ${referenceTo('NAME')}`,
      );
    }
  };

  for (const [name, value] of Object.entries(stdio?.env ?? {})) inspect(['stdio', 'env', name], name, value);
  for (const index of credentialArguments(stdio?.args ?? [])) {
    warn(['stdio', 'args', index], 'looks like a credential, and arguments are visible to other processes; use env');
  }
  for (const [index, argument] of (stdio?.args ?? []).entries()) {
    if (hasReference(argument)) warn(['stdio', 'args', index], 'has a reference, but references work in env only');
  }
  if (http !== null) {
    for (const [name, value] of Object.entries(http.headers)) inspect(['http', 'headers', name], name, value);
    if (urlHasCredential(http.url))
      warn(['http', 'url'], 'looks like it contains a credential; use auth_ref or a header');
    if (http.auth_ref !== null && Object.keys(http.headers).some((name) => name.toLowerCase() === 'authorization')) {
      warn(['http', 'auth_ref'], 'overrides the Authorization header in http.headers');
    }
    if (http.oauth?.client_secret != null && http.oauth.issuer === null) {
      warn(['http', 'oauth', 'issuer'], 'is not set, so the server decides which authorization server gets the secret');
    }
  }
  if (record.allowed_tools.length === 0) warn(['allowed_tools'], 'is empty, so every tool of this server is denied');
  const { tool_timeout_ms: usual, max_tool_timeout_ms: longest } = record.budgets;
  if (longest > 0 && longest <= usual) {
    warn(
      ['budgets', 'max_tool_timeout_ms'],
      'is not greater than tool_timeout_ms, so progress does not extend the deadline',
    );
  }
  if (record.namespaces.length === 0) warn(['namespaces'], 'is empty, so no task may use this server');
  return warnings;
}
