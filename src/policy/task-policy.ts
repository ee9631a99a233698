import { parseJson } from '../base/json.ts';
import { didYouMean } from '../base/nearest-key.ts';
import { isStringList, patternListProblem } from '../protocol/pattern-list.ts';
import type { TaskPolicy } from '../protocol/policy-layers.ts';
import { isServerId, serverIdRule } from '../protocol/record.ts';
import type { ApprovalRule } from './approval-rules.ts';
import { type ParsedApprovalRules, parseApprovalRules, type RuleIssue } from './approval-rules-parse.ts';

export const taskPolicyKeys = [
  'mcp.enabled',
  'mcp.default_server_ids',
  'mcp.allowed_server_ids',
  'mcp.tool_allowlist',
  'mcp.tool_denylist',
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

/**
 * Reads the `mcp.*` keys of a task's config, whose values are JSON written as strings; other keys are not looked at.
 * MCP is off unless `mcp.enabled` is "true"; the allowed set is the default set unless it is given.
 */
export function parseTaskPolicy(config: Readonly<Record<string, string>>): ParsedTaskPolicy {
  const issues: TaskPolicyIssue[] = unknownKeys(config);
  const read = <T>(key: TaskPolicyKey, parse: (text: string) => T | Problem): T | null => {
    const text = Object.hasOwn(config, key) ? config[key] : undefined;
    if (text === undefined) return null;
    const value = parse(text);
    if (!(value instanceof Problem)) return value;
    issues.push({ key, message: value.message });
    return null;
  };

  const enabled = read('mcp.enabled', readBoolean);
  const defaults = read('mcp.default_server_ids', readServerIds);
  const allowed = read('mcp.allowed_server_ids', readServerIds);
  const toolAllowlist = read('mcp.tool_allowlist', readPatterns);
  const toolDenylist = read('mcp.tool_denylist', readPatterns);
  const approval = readApprovalRules(config);
  if (!approval.ok) issues.push(...approval.issues.map(asTaskIssue));

  const defaultServerIds = defaults ?? Object.freeze([]);
  const beyond = allowed === null ? [] : defaultServerIds.filter((id) => !allowed.includes(id));
  if (beyond.length > 0) {
    const message = `names servers that mcp.allowed_server_ids does not: ${beyond.join(', ')}`;
    issues.push({ key: 'mcp.default_server_ids', message });
  }
  if (issues.length > 0 || !approval.ok) return { ok: false, issues };

  const policy: TaskPolicy = Object.freeze({
    enabled: enabled ?? false,
    defaultServerIds,
    allowedServerIds: allowed ?? defaultServerIds,
    toolAllowlist,
    toolDenylist: toolDenylist ?? Object.freeze([]),
  });
  const warnings = [...doubts(config, policy), ...approval.warnings.map(asTaskIssue)];
  return { ok: true, policy, approvalRules: approval.rules, warnings };
}

const APPROVAL_RULES: TaskPolicyKey = 'mcp.approval_rules';

function readApprovalRules(config: Readonly<Record<string, string>>): ParsedApprovalRules {
  return parseApprovalRules(Object.hasOwn(config, APPROVAL_RULES) ? parseJson(config[APPROVAL_RULES] as string) : []);
}

const asTaskIssue = ({ path, message }: RuleIssue): TaskPolicyIssue => ({ key: `${APPROVAL_RULES}${path}`, message });

function unknownKeys(config: Readonly<Record<string, string>>): TaskPolicyIssue[] {
  return Object.keys(config)
    .filter((key) => key.startsWith(TASK_POLICY_PREFIX) && !taskPolicyKeys.some((known) => known === key))
    .map((key) => {
      const hint = didYouMean(key, taskPolicyKeys) ?? `known are ${taskPolicyKeys.join(', ')}`;
      return { key, message: `is not a key of the task config; ${hint}` };
    });
}

function doubts(config: Readonly<Record<string, string>>, policy: TaskPolicy): TaskPolicyIssue[] {
  if (policy.enabled && policy.defaultServerIds.length === 0) {
    const message = 'MCP is on, but mcp.default_server_ids is empty: a session gets no server unless it asks for one';
    return [{ key: 'mcp.enabled', message }];
  }
  const idle = taskPolicyKeys.find((key) => Object.hasOwn(config, key));
  if (idle !== undefined && !Object.hasOwn(config, 'mcp.enabled')) {
    return [{ key: idle, message: 'has no effect: mcp.enabled is not set to "true"' }];
  }
  return [];
}

class Problem {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

function readBoolean(text: string): boolean | Problem {
  if (text === 'true') return true;
  return text === 'false' ? false : new Problem('must be "true" or "false"');
}

function readServerIds(text: string): readonly string[] | Problem {
  const list = parseJson(text);
  if (!isStringList(list)) return new Problem('must be a JSON list of server ids, for example ["fs","gitlab"]');
  const odd = list.findIndex((id) => !isServerId(id));
  if (odd !== -1) return new Problem(`entry ${odd} is not a server id: it must be ${serverIdRule}`);
  return Object.freeze([...new Set(list)]);
}

function readPatterns(text: string): readonly string[] | Problem {
  const list = parseJson(text);
  const problem = patternListProblem(list);
  if (problem === null) return Object.freeze(list as string[]);
  return new Problem(`${problem}; give a JSON list of tool name patterns, for example ["read_*"]`);
}
