import { z } from 'zod';
import { startOf } from '../../base/cut-text.ts';
import { isJsonObject } from '../../base/json.ts';
import { textProblem } from '../../base/text-problem.ts';
import { patternProblem } from '../../runtime/port/policy-layers.ts';
import {
  approvalModes,
  connectionScopes,
  elicitationModes,
  isServerId,
  mcpTransports,
  oauthClientAuths,
  oauthGrants,
  type RecordIssue,
  sandboxModes,
  sandboxNetworks,
  serverIdRule,
} from './record.ts';
import { type BudgetRange, budgetRanges, recordLimits } from './record-limits.ts';
import {
  argumentProblem,
  authRefProblem,
  envNameProblem,
  envValueProblem,
  headerNameProblem,
  headerValueProblem,
  plainUrlProblem,
  prefixProblem,
  rootUriProblem,
  scopeProblem,
  secretReferenceProblem,
  sha256Problem,
  toolNameProblem,
  urlProblem,
  variableNameProblem,
} from './record-values.ts';

/** A name longer than this is cut in messages. */
const SHOWN_NAME_CHARS = 80;

type Check = (text: string) => string | null;

const path = checked((text) => textProblem(text, recordLimits.pathChars));
const displayName = checked((text) => textProblem(text, recordLimits.displayNameChars));
export const tag = checked((text) => textProblem(text, recordLimits.tagChars));
export const pattern = checked(patternProblem);

const stdioSchema = z.object({
  command: path,
  args: list(checked(argumentProblem), recordLimits.args),
  env: map(envNameProblem, checked(envValueProblem), recordLimits.envEntries),
  cwd: optional(path),
  env_from: list(checked(variableNameProblem), recordLimits.envEntries),
});

const oauthSchema = z.object({
  grant: z.enum(oauthGrants),
  client_id: optional(checked((text) => textProblem(text, recordLimits.clientIdChars))),
  client_secret: optional(checked(secretReferenceProblem)),
  private_key: optional(checked(secretReferenceProblem)),
  token_endpoint_auth_method: optional(z.enum(oauthClientAuths)),
  scopes: list(checked(scopeProblem), recordLimits.scopes),
  issuer: optional(checked(plainUrlProblem)),
  client_metadata_url: optional(checked(plainUrlProblem)),
});

const httpSchema = z.object({
  url: checked(urlProblem),
  headers: map(headerNameProblem, checked(headerValueProblem), recordLimits.headers),
  auth_ref: optional(checked(authRefProblem)),
  oauth: optional(oauthSchema),
});

const approvalSchema = z.object({
  default: optional(z.enum(approvalModes)),
  per_tool: map(patternProblem, z.enum(approvalModes), recordLimits.patterns),
});

const budgetsSchema = z.object({
  tool_timeout_ms: budget(budgetRanges.tool_timeout_ms),
  max_tool_timeout_ms: budget(budgetRanges.max_tool_timeout_ms),
  max_concurrency: budget(budgetRanges.max_concurrency),
  max_tool_output_bytes: budget(budgetRanges.max_tool_output_bytes),
  connect_timeout_ms: budget(budgetRanges.connect_timeout_ms),
});

const sandboxSchema = z.object({
  mode: optional(z.enum(sandboxModes)),
  network: optional(z.enum(sandboxNetworks)),
  read_only_paths: list(path, recordLimits.sandboxPaths),
  writable_paths: list(path, recordLimits.sandboxPaths),
});

const rootSchema = z.object({
  uri: checked(rootUriProblem),
  name: optional(checked((text) => textProblem(text, recordLimits.rootNameChars))),
});

const clientFeaturesSchema = z.object({
  elicitation: list(z.enum(elicitationModes), elicitationModes.length),
  roots: list(rootSchema, recordLimits.roots),
});

const recordSchema = z.object({
  version: optional(z.literal(1)),
  server_id: checked((text) => (isServerId(text) ? null : `must be ${serverIdRule}`)),
  display_name: optional(displayName),
  transport: z.enum(mcpTransports),
  stdio: optional(stdioSchema),
  http: optional(httpSchema),
  tool_namespace: optional(checked(prefixProblem)),
  tool_prefix: optional(checked(prefixProblem)),
  allowed_tools: list(pattern, recordLimits.patterns),
  approval_policy: optional(approvalSchema),
  budgets: optional(budgetsSchema),
  protocol: optional(z.string()),
  tags: list(tag, recordLimits.tags),
  sandbox: optional(sandboxSchema),
  strict_schemas: optional(z.boolean()),
  repeatable: list(pattern, recordLimits.patterns),
  pins: map(toolNameProblem, checked(sha256Problem), recordLimits.pins),
  connection_scope: optional(z.enum(connectionScopes)),
  client_features: optional(clientFeaturesSchema),
  allowed_resources: list(pattern, recordLimits.patterns),
  allowed_prompts: list(pattern, recordLimits.patterns),
  namespaces: optional(z.array(pattern).max(recordLimits.patterns)),
  updated_at_ms: optional(z.int().min(0)),
  mod_revision: optional(z.int().min(0)),
});

const blocks = {
  stdio: stdioSchema,
  http: httpSchema,
  approval_policy: approvalSchema,
  budgets: budgetsSchema,
  sandbox: sandboxSchema,
  client_features: clientFeaturesSchema,
} as const;

/** A record with the right types field by field, before defaults and the rules between fields. */
export type RecordShape = z.output<typeof recordSchema>;

export type ReadShape<Shape> = { readonly shape: Shape } | { readonly issues: readonly RecordIssue[] };

export function readShape(input: unknown): ReadShape<RecordShape> {
  return readFields(recordSchema, input);
}

export function readFields<Schema extends z.ZodType>(schema: Schema, input: unknown): ReadShape<z.output<Schema>> {
  const result = schema.safeParse(input, { error: describe });
  if (result.success) return { shape: result.data };
  return { issues: result.error.issues.map((issue) => ({ path: pathText(issue.path), message: issue.message })) };
}

/** Paths of the fields that no record has. */
export function unknownFields(input: unknown): string[] {
  if (!isJsonObject(input)) return [];
  const unknown = unknownFieldsOf(input, recordSchema);
  for (const [name, schema] of Object.entries(blocks)) {
    const block = input[name];
    if (isJsonObject(block)) unknown.push(...strangers(block, schema.shape, [name]));
  }
  const oauth = isJsonObject(input.http) ? input.http.oauth : null;
  if (isJsonObject(oauth)) unknown.push(...strangers(oauth, oauthSchema.shape, ['http', 'oauth']));
  const roots = isJsonObject(input.client_features) ? input.client_features.roots : null;
  for (const [index, root] of (Array.isArray(roots) ? roots : []).entries()) {
    if (isJsonObject(root)) unknown.push(...strangers(root, rootSchema.shape, ['client_features', 'roots', index]));
  }
  return unknown;
}

/** The same for a table without tables of fixed fields in it. */
export function unknownFieldsOf(input: unknown, schema: z.ZodObject): string[] {
  return isJsonObject(input) ? strangers(input, schema.shape, []) : [];
}

export function pathText(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    const name = startOf(String(part), SHOWN_NAME_CHARS);
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[\w-]+$/.test(name)) text += text === '' ? name : `.${name}`;
    else text += `[${JSON.stringify(name)}]`;
  }
  return text;
}

function strangers(value: object, shape: object, path: readonly PropertyKey[]): string[] {
  return Object.keys(value)
    .filter((key) => !Object.hasOwn(shape, key))
    .map((key) => pathText([...path, key]));
}

export function checked(check: Check) {
  return z.string().superRefine((text, context) => {
    const message = check(text);
    if (message !== null) context.addIssue({ code: 'custom', message });
  });
}

/** Null and the empty string are how JSON and protobuf say "not given". */
export function optional<T extends z.ZodType>(schema: T) {
  return z.preprocess((value) => (value === undefined || value === '' ? null : value), schema.nullable());
}

export function list<T extends z.ZodType>(item: T, maxItems: number) {
  return z.preprocess((value) => value ?? [], z.array(item).max(maxItems));
}

export function map<T extends z.ZodType>(keyProblem: Check, value: T, maxEntries: number) {
  const entries = z.record(z.string(), value);
  const readEntries = z.unknown().transform((input, context): z.output<typeof entries> => {
    const keys = isJsonObject(input) ? Object.keys(input) : [];
    if (keys.length > maxEntries) context.addIssue(`has ${keys.length} entries; the limit is ${maxEntries}`);
    const report = (message: string, path: PropertyKey[]) =>
      context.addIssue({ code: 'custom', message, path, input: undefined });
    for (const key of keys.slice(0, maxEntries)) {
      const message = keyProblem(key);
      if (message !== null) report(message, [key]);
    }
    const result = entries.safeParse(input, { error: describe });
    if (result.success) return result.data;
    for (const issue of result.error.issues) report(issue.message, issue.path);
    return z.NEVER;
  });
  // zod's own record drops a key called __proto__ without a word, so the keys are looked at before it sees them.
  return z.preprocess((input) => input ?? {}, readEntries);
}

function budget(range: BudgetRange) {
  const number = z.int().min(range.min).max(range.max);
  const given = z.preprocess((value) => (value === undefined || value === 0 ? null : value), number.nullable());
  return given.transform((value) => value ?? range.default);
}

type RawIssue = Parameters<z.core.$ZodErrorMap>[0];

function describe(issue: RawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${article(issue.expected)}`;
    case 'invalid_value':
      if (issue.input === undefined) return 'is required';
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'too_small':
      return `must be at least ${issue.minimum}`;
    case 'too_big':
      return issue.origin === 'array' ? `has more than ${issue.maximum} items` : `must be at most ${issue.maximum}`;
    default:
      return 'is not valid';
  }
}

function article(expected: string): string {
  if (expected === 'int') return 'a whole number';
  if (expected === 'record' || expected === 'object') return 'a table of fields';
  return expected === 'array' ? 'a list' : `a ${expected}`;
}
