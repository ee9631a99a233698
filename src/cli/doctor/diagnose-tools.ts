import type { ToolDescriptor, ToolList } from '../../agent/mcp/client/tool-list.ts';
import { filterTools } from '../../agent/mcp/session-tools.ts';
import { fullName, isHashed, type NameClaims, toolName } from '../../agent/mcp/tool-names.ts';
import { type ApprovalRules, approvalNote } from '../../agent/policy/approval-rules.ts';
import { quoted } from '../../agent/policy/decision.ts';
import { wordsFor } from '../../agent/policy/layer-words.ts';
import { aboutTool, explain, firstDenial, type LayerAnswer } from '../../agent/policy/walk.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { bad, type Finding, ok, skipped } from './finding.ts';

/** The policy that a session of the task would have. */
export interface DiagnosedPolicy {
  readonly task: TaskPolicy;
  readonly session: SessionPolicy;
  /** The profile in the registry; null: the task names none, or it does not exist. */
  readonly profile: McpProfile | null;
  readonly approvals: ApprovalRules;
}

/**
 * Checks the tools that a server listed: which pattern allows or excludes each, and its name for the model.
 */
export function diagnoseTools(
  list: ToolList,
  record: McpServerRecord,
  policy: DiagnosedPolicy,
  claims: NameClaims,
): Finding {
  const { task, session, profile } = policy;
  const filtered = filterTools(list, record, task, session, profile);
  const dropped = list.dropped.map(({ name, reason, detail }) => unusable(name, reason, detail));
  const tools = [...list.tools]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((tool) => diagnoseTool(tool, record, policy, claims));
  const usable = filtered.tools.length;
  const text = `${usable} of ${list.tools.length} tools are shown to the model`;
  const children = [...tools, ...dropped];
  if (usable > 0) return ok('tools', text, children);
  if (list.tools.length === 0) {
    const fix = 'check the configuration of the server, or contact its maintainer';
    return bad('tools', list.notice ?? 'the server offers no tools', { cause: 'no_tools', fix, children });
  }
  const [first] = list.tools;
  const question = aboutTool(record, task, session, profile, first?.name ?? '', first);
  const denial = firstDenial(explain(question));
  const cause = denial?.reason ?? '';
  const fix = (denial && wordsFor(denial, question).fix) ?? '';
  return bad('tools', `the model sees no tool of ${quoted(record.server_id)}`, { cause, fix, children });
}

function diagnoseTool(
  definition: ToolDescriptor,
  record: McpServerRecord,
  { task, session, profile, approvals }: DiagnosedPolicy,
  claims: NameClaims,
): Finding {
  const { name: tool } = definition;
  const question = aboutTool(record, task, session, profile, tool, definition);
  const answers = explain(question);
  const denial = firstDenial(answers);
  if (denial !== null) {
    // A tool that policy excludes is not a problem.
    const { text, fix } = wordsFor(denial, question);
    const why = { cause: denial.reason ?? '', fix: fix ?? '' };
    return skipped('tool', `${tool}: ${denial.layer} ${denial.rule}: ${text}`, why);
  }
  const approval = approvalNote(record, tool, approvals);
  const name = shownName(record, tool, session, claims);
  return ok('tool', [`${tool}: ${letIn(answers)}`, `as ${name}`, ...approval].join('; '));
}

function letIn(answers: readonly LayerAnswer[]): string {
  return answers
    .filter(({ verdict }) => verdict === 'allows')
    .map(({ layer, rule, matched }) => `${layer} ${rule} ${quoted(matched ?? '')}`)
    .join(', ');
}

/** The name that the model sees, and why. */
export function shownName(
  record: McpServerRecord,
  tool: string,
  { toolNaming }: SessionPolicy,
  claims: NameClaims,
): string {
  const shown = toolName(record, tool, toolNaming, claims);
  const readable = `${record.tool_prefix}_${tool}`;
  const notes: string[] = [];
  if (toolNaming === 'readable' && !claims.isUnambiguous(readable, record.server_id)) {
    notes.push(`${readable} could be a tool of another server: set another tool_prefix to distinguish them`);
  }
  if (isHashed(record.server_id, tool, shown)) {
    notes.push(
      `a hash: the full name has ${fullName(record.server_id, tool).length} characters; the limit of models is 64`,
    );
  }
  return notes.length === 0 ? shown : `${shown} (${notes.join('; ')})`;
}

function unusable(name: string, cause: string, detail: string): Finding {
  const fix =
    cause === 'schema_invalid'
      ? 'the server must correct the schema of the tool; until then the tool is left out'
      : 'the server must give its tools different names';
  return bad('tool', `${name || '(a tool without a name)'}: ${detail}`, { cause, fix });
}
