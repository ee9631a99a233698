import { hasReference, literalParts, referenceTo } from '../secrets/references.ts';
import { isMcpProtocol, type McpServerRecord, type RecordIssue, usesStdio } from './record.ts';
import { credentialArguments, looksLikeCredential, urlHasCredential } from './record-credentials.ts';
import type { Parsed, ParseOptions } from './record-kind.ts';
import { budgetRanges, recordLimits } from './record-limits.ts';
import { oauthContradictions } from './record-oauth.ts';
import { pathText, type RecordShape, readShape, unknownFields } from './record-schema.ts';

export type ParsedRecord = Parsed<McpServerRecord>;

/** Issues and warnings beyond this number are left out: they come from a file that is no record at all. */
export const MAX_REPORTED = 100;

/** Validates outside data and completes it with the defaults. Neither issues nor warnings ever repeat a value. */
export function parseRecord(input: unknown, options: ParseOptions): ParsedRecord {
  const unknown = unknownFields(input).map((path) => ({ path, message: 'is not a field of a server' }));
  const read = readShape(input);
  const refused = options.strict ? unknown : [];
  if ('issues' in read) return rejected([...read.issues, ...refused]);
  const strangeProtocol = unknownProtocol(read.shape);

  const issues = [...refused, ...(options.strict ? strangeProtocol : []), ...contradictions(read.shape, options)];
  if (issues.length > 0) return rejected(issues);

  const record = complete(read.shape);
  // As long as the text that is stored, which has the same fields in another order.
  const bytes = Buffer.byteLength(JSON.stringify(record));
  if (bytes > recordLimits.recordBytes) {
    const message = `the server has ${bytes} bytes; the limit is ${recordLimits.recordBytes}`;
    return rejected([{ path: '', message }]);
  }
  return {
    ok: true,
    record: deepFreeze(record),
    warnings: [...unknown, ...strangeProtocol, ...ignoredBlocks(read.shape), ...doubts(record)].slice(0, MAX_REPORTED),
  };
}

function rejected(issues: readonly RecordIssue[]): ParsedRecord {
  return { ok: false, issues: issues.slice(0, MAX_REPORTED) };
}

/** Rules between fields. */
function contradictions(shape: RecordShape, options: ParseOptions): RecordIssue[] {
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

function complete(shape: RecordShape): McpServerRecord {
  const { server_id, transport, stdio, http, sandbox } = shape;
  const envFrom = (stdio?.env_from ?? []).map((name) => [name, referenceTo(name)] as const);
  return {
    server_id,
    display_name: shape.display_name ?? server_id,
    transport,
    stdio:
      stdio === null || !usesStdio(transport)
        ? null
        : {
            command: stdio.command,
            args: stdio.args,
            env: { ...stdio.env, ...Object.fromEntries(envFrom) },
            cwd: stdio.cwd,
          },
    http:
      http === null || usesStdio(transport)
        ? null
        : { url: http.url, headers: http.headers, auth_ref: http.auth_ref, oauth: http.oauth },
    tool_namespace: shape.tool_namespace ?? `mcp.${server_id}`,
    tool_prefix: shape.tool_prefix ?? server_id,
    allowed_tools: shape.allowed_tools,
    approval_policy: {
      default: shape.approval_policy?.default ?? 'never',
      per_tool: shape.approval_policy?.per_tool ?? {},
    },
    budgets: shape.budgets ?? defaultBudgets(),
    protocol: protocolOf(shape),
    tags: shape.tags,
    strict_schemas: shape.strict_schemas ?? false,
    repeatable: shape.repeatable,
    pins: shape.pins,
    connection_scope: shape.connection_scope ?? 'task',
    client_features: shape.client_features ?? { elicitation: [], roots: [] },
    allowed_resources: shape.allowed_resources,
    allowed_prompts: shape.allowed_prompts,
    namespaces: shape.namespaces ?? ['*'],
    // Whoever writes a sandbox block wants a sandbox: without a mode it is not optional.
    sandbox:
      sandbox === null
        ? null
        : {
            mode: sandbox.mode ?? 'required',
            network: sandbox.network ?? 'allow',
            read_only_paths: sandbox.read_only_paths,
            writable_paths: sandbox.writable_paths,
          },
    updated_at_ms: shape.updated_at_ms ?? 0,
    mod_revision: shape.mod_revision ?? 0,
  };
}

const PROTOCOL_RULE = 'must be "auto", "legacy" or a version like "2026-07-28"';

/** Whoever reads a record that others wrote may be older than they are. */
function protocolOf({ protocol }: RecordShape): McpServerRecord['protocol'] {
  if (protocol === null) return 'auto';
  return isMcpProtocol(protocol) ? protocol : 'legacy';
}

function unknownProtocol({ protocol }: RecordShape): RecordIssue[] {
  if (protocol === null || isMcpProtocol(protocol)) return [];
  return [{ path: 'protocol', message: PROTOCOL_RULE }];
}

function defaultBudgets(): McpServerRecord['budgets'] {
  return {
    tool_timeout_ms: budgetRanges.tool_timeout_ms.default,
    max_tool_timeout_ms: budgetRanges.max_tool_timeout_ms.default,
    max_concurrency: budgetRanges.max_concurrency.default,
    max_tool_output_bytes: budgetRanges.max_tool_output_bytes.default,
    connect_timeout_ms: budgetRanges.connect_timeout_ms.default,
  };
}

function ignoredBlocks(shape: RecordShape): RecordIssue[] {
  const other = usesStdio(shape.transport) ? 'http' : 'stdio';
  if (shape[other] === null) return [];
  return [{ path: other, message: `is ignored: the transport is "${shape.transport}"` }];
}

/** What is allowed and probably a mistake. */
function doubts(record: McpServerRecord): RecordIssue[] {
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

export function deepFreeze<T extends object>(value: T): T {
  for (const child of Object.values(value)) if (typeof child === 'object' && child !== null) deepFreeze(child);
  return Object.freeze(value);
}
