import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { ApprovalMode, McpApprovalPolicy, McpServerRecord } from '../../server/records/server.ts';
import { type ArgumentMatcher, matchesArguments } from './argument-matcher.ts';
import { quoted } from './decision.ts';
import { compilePattern, compilePatterns, type NameMatcher } from './pattern.ts';

export const verdicts = ['allow', 'ask', 'deny'] as const;
/** From the loosest to the strictest. */
export type Verdict = (typeof verdicts)[number];

export const toolHints = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;
export type ToolHint = (typeof toolHints)[number];

/** One rule about calls of tools. Everything that it names must match. */
export interface ApprovalRule {
  /** As given, or its place in the list. */
  readonly name: string;
  /** Patterns of server ids. */
  readonly servers: readonly string[];
  /** Patterns of tool names, as the servers call them. */
  readonly tools: readonly string[];
  readonly arguments: readonly ArgumentMatcher[];
  /** What the server says of its own tool: worth as much as the server is trusted. */
  readonly annotations: Readonly<Partial<Record<ToolHint, boolean>>>;
  readonly verdict: Verdict;
}

/** The rules of both layers; in each the first that matches decides. */
export interface ApprovalRules {
  readonly node: readonly ApprovalRule[];
  readonly task: readonly ApprovalRule[];
}

export const noRules: ApprovalRules = Object.freeze({ node: Object.freeze([]), task: Object.freeze([]) });

/** The call that rules are asked about. */
export interface JudgedCall {
  readonly server: string;
  readonly tool: string;
  readonly arguments: JsonObject;
  /** As the server listed them; null if it listed none. */
  readonly annotations: JsonObject | null;
}

export interface RuleVerdict {
  readonly verdict: Verdict;
  /** Null: no rule matches. */
  readonly layer: keyof ApprovalRules | null;
  readonly rule: string | null;
}

const nobodySaid: RuleVerdict = Object.freeze({ verdict: 'ask', layer: null, rule: null });

/**
 * What the rules say of a call: of the node's answer and the task's the stricter one, so a task can never loosen what
 * the node says; `ask` if neither has a rule for it.
 */
export function judge(rules: ApprovalRules, call: JudgedCall): RuleVerdict {
  const node = firstMatch(rules.node, call);
  const task = firstMatch(rules.task, call);
  if (task !== undefined && (node === undefined || verdicts.indexOf(task.verdict) > verdicts.indexOf(node.verdict))) {
    return { verdict: task.verdict, layer: 'task', rule: task.name };
  }
  return node === undefined ? nobodySaid : { verdict: node.verdict, layer: 'node', rule: node.name };
}

export function isEmpty(rules: ApprovalRules): boolean {
  return rules.node.length === 0 && rules.task.length === 0;
}

/** Whether any rule can deny: only then are they worth asking where nothing needs an approval. */
export function canDeny({ node, task }: ApprovalRules): boolean {
  return [...node, ...task].some(({ verdict }) => verdict === 'deny');
}

function firstMatch(rules: readonly ApprovalRule[], call: JudgedCall): ApprovalRule | undefined {
  return rules.find((rule) => matches(rule, call));
}

function matches(rule: ApprovalRule, call: JudgedCall): boolean {
  return (
    compilePatterns(rule.servers)(call.server) &&
    compilePatterns(rule.tools)(call.tool) &&
    matchesHints(rule.annotations, call.annotations) &&
    // Of several values one bad one is enough to stop a call, and all must be good to let it pass.
    rule.arguments.every((matcher) => matchesArguments(matcher, call.arguments, rule.verdict === 'allow'))
  );
}

function matchesHints(wanted: ApprovalRule['annotations'], given: JsonObject | null): boolean {
  return toolHints.every((hint) => wanted[hint] === undefined || wanted[hint] === hintOf(hint, given));
}

/** A hint as the protocol means it: what a tool does not say of itself is taken as the worse. */
function hintOf(hint: ToolHint, annotations: JsonObject | null): boolean {
  const said = (name: ToolHint) => (isJsonObject(annotations) ? annotations[name] : undefined);
  const value = said(hint);
  if (typeof value === 'boolean') return value;
  switch (hint) {
    case 'readOnlyHint':
    case 'idempotentHint':
      return false;
    case 'destructiveHint':
      return said('readOnlyHint') !== true;
    case 'openWorldHint':
      return true;
  }
}

const modesByStrictness: readonly ApprovalMode[] = ['never', 'policy', 'always'];

/** The mode for one tool: of all patterns that match, the strictest; the record's default if none does. */
export function approvalMode(record: Pick<McpServerRecord, 'approval_policy'>, tool: string): ApprovalMode {
  const policy = record.approval_policy;
  let strictest = -1;
  for (const { matches, rank } of compiledPatterns(policy)) {
    if (rank > strictest && matches(tool)) strictest = rank;
  }
  return strictest < 0 ? policy.default : (modesByStrictness[strictest] as ApprovalMode);
}

type CompiledPattern = { readonly matches: NameMatcher; readonly rank: number };

// Asked twice for every call of a tool, with the same frozen records.
const compiled = new WeakMap<McpApprovalPolicy, readonly CompiledPattern[]>();

function compiledPatterns(policy: McpApprovalPolicy): readonly CompiledPattern[] {
  const known = compiled.get(policy);
  if (known) return known;
  const patterns = Object.entries(policy.per_tool).map(([pattern, mode]) => ({
    matches: compilePattern(pattern),
    rank: modesByStrictness.indexOf(mode),
  }));
  if (Object.isFrozen(policy.per_tool)) compiled.set(policy, patterns);
  return patterns;
}

/** `ask`: a person has to say yes. */
export type ApprovalNeed = 'none' | 'ask' | 'denied';

/** What a record's mode and the rules come to for one call. */
export function approvalNeed(mode: ApprovalMode, { verdict }: RuleVerdict): ApprovalNeed {
  if (verdict === 'deny') return 'denied';
  return mode === 'never' || (mode === 'policy' && verdict === 'allow') ? 'none' : 'ask';
}

/** What stands between an allowed call and its being made; empty: nothing. */
export function approvalNote(record: McpServerRecord, tool: string, rules: ApprovalRules): string[] {
  const mode = approvalMode(record, tool);
  const concerned = rulesAbout(record, tool, rules);
  const denying = concerned.filter(({ verdict }) => verdict === 'deny').map(({ name }) => `may be denied by ${name}`);
  if (mode === 'always') return ['every call needs an approval (approval_policy: always)', ...denying];
  if (mode === 'never') return denying;
  const said = concerned.map(({ name, verdict }) => `${name}: ${verdict}`).join(', ');
  return [`approval_policy: policy, ${said === '' ? 'and no rule matches: every call needs an approval' : said}`];
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
