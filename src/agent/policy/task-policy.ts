import { type JsonValue, parseJson } from '../../base/json.ts';
import { didYouMean } from '../../base/validation.ts';
import {
  isStringList,
  isToolNaming,
  isToolSearchMode,
  type NameLists,
  noLists,
  noOverrides,
  noToolSearch,
  type ProfileOverrides,
  patternListProblem,
  type TaskPolicy,
  type ToolNaming,
  type ToolSearchMode,
} from '../../runtime/port/policy-layers.ts';
import { isServerId, serverIdRule } from '../../server/records/field-rules.ts';
import type { ApprovalRule } from './approval-rules.ts';
import { type ParsedApprovalRules, parseApprovalRules, type RuleIssue } from './approval-rules-parse.ts';
import { readProfileOverrides, tagsProblem } from './record-checks.ts';

export const taskPolicyKeys = [
  'mcp.enabled',
  'mcp.default_server_ids',
  'mcp.allowed_server_ids',
  'mcp.required_server_ids',
  'mcp.server_tags',
  'mcp.profile',
  'mcp.profile_overrides',
  'mcp.tool_allowlist',
  'mcp.tool_denylist',
  'mcp.resources',
  'mcp.resource_allowlist',
  'mcp.resource_denylist',
  'mcp.prompt_allowlist',
  'mcp.prompt_denylist',
  'mcp.tool_naming',
  'mcp.tool_search',
  'mcp.tool_search_above',
  'mcp.approval_rules',
] as const;
type TaskPolicyKey = (typeof taskPolicyKeys)[number];

const TASK_POLICY_PREFIX = 'mcp.';

/** A key of the task's config and what is wrong with it. */
export interface TaskPolicyIssue {
  readonly key: string;
  readonly message: string;
}

export type ParsedTaskPolicy =
  | {
      readonly ok: true;
      readonly policy: TaskPolicy;
      readonly approvalRules: readonly ApprovalRule[];
      readonly warnings: readonly TaskPolicyIssue[];
    }
  | { readonly ok: false; readonly issues: readonly TaskPolicyIssue[] };

type Config = Readonly<Record<string, JsonValue>>;

/**
 * Reads the `mcp.*` keys of a task's config; other keys are not looked at. A value that is no string anyway may be
 * written as JSON or as a string of JSON.
 * MCP is off unless `mcp.enabled` is true; the allowed set is the default set unless it is given. A task that lists no
 * server has none, unless it names a profile or asks for tags.
 */
export function parseTaskPolicy(config: Config, namespace: string | null = null): ParsedTaskPolicy {
  const issues: TaskPolicyIssue[] = unknownKeys(config);
  const read = <T>(key: TaskPolicyKey, parse: (value: unknown) => T | Problem): T | null => {
    const given = Object.hasOwn(config, key) ? config[key] : undefined;
    if (given === undefined) return null;
    const value = parse(given);
    if (!(value instanceof Problem)) return value;
    issues.push({ key, message: value.message });
    return null;
  };

  const enabled = read('mcp.enabled', readBoolean);
  const defaults = read('mcp.default_server_ids', readServerIds);
  const allowed = read('mcp.allowed_server_ids', readServerIds);
  const required = read('mcp.required_server_ids', readServerIds);
  const serverTags = read('mcp.server_tags', readTags);
  const profileName = read('mcp.profile', readProfileName);
  const overrides = read('mcp.profile_overrides', readOverrides);
  const toolAllowlist = read('mcp.tool_allowlist', readPatterns);
  const toolDenylist = read('mcp.tool_denylist', readPatterns);
  const resourceTools = read('mcp.resources', readBoolean);
  const resourceAllowlist = read('mcp.resource_allowlist', readUriPatterns);
  const resourceDenylist = read('mcp.resource_denylist', readUriPatterns);
  const promptAllowlist = read('mcp.prompt_allowlist', readPatterns);
  const promptDenylist = read('mcp.prompt_denylist', readPatterns);
  const toolNaming = read('mcp.tool_naming', readNaming);
  const toolSearch = read('mcp.tool_search', readSearchMode);
  const searchAbove = read('mcp.tool_search_above', readSearchAbove);
  const approval = readApprovalRules(config);
  if (!approval.ok) issues.push(...approval.issues.map(asTaskIssue));

  const defaultServerIds = defaults ?? (serverTags === null && profileName === null ? Object.freeze([]) : null);
  const beyond = allowed === null ? [] : (defaults ?? []).filter((id) => !allowed.includes(id));
  if (beyond.length > 0) {
    const message = `names servers that are not in mcp.allowed_server_ids: ${beyond.join(', ')}`;
    issues.push({ key: 'mcp.default_server_ids', message });
  }
  const ceiling = allowed ?? defaultServerIds;
  const foreign = ceiling === null ? [] : (required ?? []).filter((id) => !ceiling.includes(id));
  if (foreign.length > 0) {
    const message = `names servers that are not in mcp.allowed_server_ids: ${foreign.join(', ')}`;
    issues.push({ key: 'mcp.required_server_ids', message });
  }
  if (overrides !== null && !Object.hasOwn(config, 'mcp.profile')) {
    issues.push({
      key: 'mcp.profile_overrides',
      message: 'requires mcp.profile: it can only narrow that profile',
    });
  }
  if (issues.length > 0 || !approval.ok) return { ok: false, issues };

  const policy: TaskPolicy = Object.freeze({
    enabled: enabled ?? false,
    ...(namespace === null ? {} : { namespace }),
    defaultServerIds,
    allowedServerIds: ceiling,
    ...(required === null || required.length === 0 ? {} : { requiredServerIds: required }),
    serverTags,
    toolAllowlist,
    toolDenylist: toolDenylist ?? Object.freeze([]),
    resourceLists: nameLists(resourceAllowlist, resourceDenylist),
    promptLists: nameLists(promptAllowlist, promptDenylist),
    resourceTools: resourceTools ?? false,
    toolNaming: toolNaming ?? 'encoded',
    toolSearch: Object.freeze({
      mode: toolSearch ?? noToolSearch.mode,
      above: searchAbove ?? noToolSearch.above,
    }),
    profile: profileName === null ? null : Object.freeze({ name: profileName, overrides: overrides ?? noOverrides }),
  });
  const warnings = [...doubts(config, policy), ...approval.warnings.map(asTaskIssue)];
  return { ok: true, policy, approvalRules: approval.rules, warnings };
}

const APPROVAL_RULES: TaskPolicyKey = 'mcp.approval_rules';

function readApprovalRules(config: Config): ParsedApprovalRules {
  return parseApprovalRules(Object.hasOwn(config, APPROVAL_RULES) ? readJson(config[APPROVAL_RULES]) : []);
}

const asTaskIssue = ({ path, message }: RuleIssue): TaskPolicyIssue => ({ key: `${APPROVAL_RULES}${path}`, message });

function unknownKeys(config: Config): TaskPolicyIssue[] {
  return Object.keys(config)
    .filter((key) => key.startsWith(TASK_POLICY_PREFIX) && !taskPolicyKeys.some((known) => known === key))
    .map((key) => {
      const hint = didYouMean(key, taskPolicyKeys) ?? `valid keys: ${taskPolicyKeys.join(', ')}`;
      return { key, message: `is not a key of the task config; ${hint}` };
    });
}

function doubts(config: Config, policy: TaskPolicy): TaskPolicyIssue[] {
  if (policy.enabled && policy.defaultServerIds?.length === 0) {
    const message =
      'MCP is enabled, but mcp.default_server_ids is empty: a session gets no server unless it requests one';
    return [{ key: 'mcp.enabled', message }];
  }
  const idle = taskPolicyKeys.find((key) => Object.hasOwn(config, key));
  if (idle !== undefined && !Object.hasOwn(config, 'mcp.enabled')) {
    return [{ key: idle, message: 'has no effect: mcp.enabled is not set to true' }];
  }
  return [];
}

class Problem {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

function readBoolean(given: unknown): boolean | Problem {
  const value = readJson(given);
  return typeof value === 'boolean' ? value : new Problem('must be true or false');
}

function readNaming(given: unknown): ToolNaming | Problem {
  return isToolNaming(given) ? given : new Problem('must be "encoded" or "readable"');
}

function readSearchMode(given: unknown): ToolSearchMode | Problem {
  return isToolSearchMode(given) ? given : new Problem('must be "auto", "on" or "off"');
}

const MAX_SEARCH_ABOVE = 100_000;

function readSearchAbove(given: unknown): number | Problem {
  const value = readJson(given);
  const fits = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MAX_SEARCH_ABOVE;
  return fits ? value : new Problem(`must be a whole number from 0 to ${MAX_SEARCH_ABOVE}`);
}

function readServerIds(given: unknown): readonly string[] | Problem {
  const list = readJson(given);
  if (!isStringList(list)) return new Problem('must be a JSON list of server ids, for example ["fs","gitlab"]');
  const odd = list.findIndex((id) => !isServerId(id));
  if (odd !== -1) return new Problem(`entry ${odd} is not a server id: it must be ${serverIdRule}`);
  return Object.freeze([...new Set(list)]);
}

function readTags(given: unknown): readonly string[] | Problem {
  const list = readJson(given);
  const problem = tagsProblem(list);
  if (problem === null && (list as string[]).length > 0) return Object.freeze([...new Set(list as string[])]);
  return new Problem(`${problem ?? 'is empty'}; give a JSON list of tags, for example ["scm","search"]`);
}

function readProfileName(given: unknown): string | Problem {
  return typeof given === 'string' && isServerId(given)
    ? given
    : new Problem(`must be the name of a profile: ${serverIdRule}`);
}

function readOverrides(given: unknown): ProfileOverrides | Problem {
  const read = readProfileOverrides(readJson(given) as JsonValue);
  return typeof read === 'string' ? new Problem(read) : read;
}

const readPatterns = (given: unknown) => readPatternList(given, 'of name patterns, for example ["read_*"]');
const readUriPatterns = (given: unknown) => readPatternList(given, 'of URI patterns, for example ["file:///data/*"]');

function readPatternList(given: unknown, example: string): readonly string[] | Problem {
  const list = readJson(given);
  const problem = patternListProblem(list);
  if (problem === null) return Object.freeze(list as string[]);
  return new Problem(`${problem}; give a JSON list ${example}`);
}

function nameLists(allow: readonly string[] | null, deny: readonly string[] | null): NameLists {
  return Object.freeze({ allow, deny: deny ?? noLists.deny });
}

function readJson(given: unknown): unknown {
  return typeof given === 'string' ? parseJson(given) : given;
}
