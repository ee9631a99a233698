import type { Injection } from '../mcp/injection.ts';
import { filterTools } from '../mcp/session-tools.ts';
import { fullName, isHashed, toolName } from '../mcp/tool-names.ts';
import { approvalMode } from '../policy/approval-mode.ts';
import type { ApprovalRules } from '../policy/approval-rules.ts';
import { type Exclusion, quoted } from '../policy/decision.ts';
import { compilePatterns } from '../policy/pattern.ts';
import { aboutTool, explain, firstDenial, type LayerAnswer } from '../policy/walk.ts';
import type { ToolList } from '../pool/tool-list.ts';
import type { SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { bad, type Finding, ok, skipped } from './finding.ts';
import { wordsFor } from './layer-words.ts';

/** The policy that a session of the task would have. */
export interface DiagnosedPolicy {
  readonly task: TaskPolicy;
  readonly session: SessionPolicy;
  readonly approvals: ApprovalRules;
}

/**
 * What becomes of the tools that a server listed: which pattern lets each in or keeps it out, under which name the model
 * sees it. `injection` holds the names of the servers before this one.
 */
export function diagnoseTools(
  list: ToolList,
  record: McpServerRecord,
  policy: DiagnosedPolicy,
  injection: Injection,
): Finding {
  const { task, session } = policy;
  const filtered = filterTools(list, record, task, session);
  const collisions = injection.add({ record, ...filtered, failure: null, durationMs: 0 }, new Set());
  const dropped = list.dropped.map(({ name, reason, detail }) => unusable(name, reason, detail));
  const taken = new Map(collisions.map((collision) => [collision.tool, collision]));
  const tools = [...list.tools]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name }) => diagnoseTool(name, record, policy, taken.get(name)));
  const usable = filtered.tools.length - collisions.length;
  const text = `${usable} of ${list.tools.length} tools are shown to the model`;
  const children = [...tools, ...dropped];
  if (usable > 0) return ok('tools', text, children);
  if (list.tools.length === 0) {
    const fix = 'ask the maker of the server, or check what its configuration turns on';
    return bad('tools', 'the server offers no tools', { cause: 'no_tools', fix, children });
  }
  const question = aboutTool(record, task, session, list.tools[0]?.name ?? '');
  const denial = firstDenial(explain(question));
  const cause = denial?.reason ?? 'name_collision';
  const fix = (denial && wordsFor(denial, question).fix) ?? 'give one of the servers another tool_prefix';
  return bad('tools', `no tool of ${quoted(record.server_id)} is left for the model`, { cause, fix, children });
}

function diagnoseTool(
  tool: string,
  record: McpServerRecord,
  { task, session, approvals }: DiagnosedPolicy,
  collision: Exclusion | undefined,
): Finding {
  const question = aboutTool(record, task, session, tool);
  const answers = explain(question);
  const denial = firstDenial(answers);
  if (denial !== null) {
    // Policy that works is nothing wrong.
    const { text, fix } = wordsFor(denial, question);
    const why = { cause: denial.reason ?? '', fix: fix ?? '' };
    return skipped('tool', `${tool}: ${denial.layer} ${denial.rule}: ${text}`, why);
  }
  if (collision !== undefined) {
    const fix = 'give one of the servers another tool_prefix, or leave the tool out with a denylist';
    return bad('tool', `${tool}: ${collision.detail}`, { cause: collision.reason, fix });
  }
  const approval = approvalNote(record, tool, approvals);
  const name = nameNote(record, tool, session);
  return ok('tool', [`${tool}: ${letIn(answers)}`, ...name, ...approval].join('; '));
}

function letIn(answers: readonly LayerAnswer[]): string {
  return answers
    .filter(({ verdict }) => verdict === 'allows')
    .map(({ layer, rule, matched }) => `${layer} ${rule} ${quoted(matched ?? '')}`)
    .join(', ');
}

function nameNote(record: McpServerRecord, tool: string, session: SessionPolicy): string[] {
  const shown = toolName(record, tool, session.toolNaming);
  if (!isHashed(record.server_id, tool, shown)) return [`as ${shown}`];
  return [
    `as ${shown} (a hash: the full name has ${fullName(record.server_id, tool).length} characters, models take 64)`,
  ];
}

function unusable(name: string, cause: string, detail: string): Finding {
  const fix =
    cause === 'schema_invalid'
      ? 'the server has to correct the schema of the tool; until then it is left out'
      : 'the server has to name its tools apart';
  return bad('tool', `${name || '(a tool without a name)'}: ${detail}`, { cause, fix });
}

/** What stands between an allowed call and its being made; empty: nothing. */
export function approvalNote(record: McpServerRecord, tool: string, rules: ApprovalRules): string[] {
  const mode = approvalMode(record, tool);
  const concerned = rulesAbout(record, tool, rules);
  const denying = concerned.filter(({ verdict }) => verdict === 'deny').map(({ name }) => `may be denied by ${name}`);
  if (mode === 'always') return ['every call is asked about (approval_policy: always)', ...denying];
  if (mode === 'never') return denying;
  const said = concerned.map(({ name, verdict }) => `${name}: ${verdict}`).join(', ');
  return [`approval_policy: policy, ${said === '' ? 'and no rule speaks of it: every call is asked about' : said}`];
}

/** Rules whose patterns match; whether their arguments and annotations do is known only at a call. */
function rulesAbout(
  record: McpServerRecord,
  tool: string,
  rules: ApprovalRules,
): { readonly name: string; readonly verdict: string }[] {
  return (['node', 'task'] as const).flatMap((layer) =>
    rules[layer]
      .filter(({ servers, tools }) => compilePatterns(servers)(record.server_id) && compilePatterns(tools)(tool))
      .map(({ name, verdict }) => ({ name: `${quoted(name)} of the ${layer}'s rules`, verdict })),
  );
}
