import type { ApprovalMode, McpApprovalPolicy, McpServerRecord } from '../../server/records/server.ts';
import { compilePattern, type NameMatcher } from './pattern.ts';

const strictness: readonly ApprovalMode[] = ['never', 'policy', 'always'];

/** The mode for one tool: of all patterns that match, the strictest; the record's default if none does. */
export function approvalMode(record: Pick<McpServerRecord, 'approval_policy'>, tool: string): ApprovalMode {
  const policy = record.approval_policy;
  let strictest = -1;
  for (const { matches, rank } of compiledPatterns(policy)) {
    if (rank > strictest && matches(tool)) strictest = rank;
  }
  return strictest < 0 ? policy.default : (strictness[strictest] as ApprovalMode);
}

type CompiledPattern = { readonly matches: NameMatcher; readonly rank: number };

// Asked twice for every call of a tool, with the same frozen records.
const compiled = new WeakMap<McpApprovalPolicy, readonly CompiledPattern[]>();

function compiledPatterns(policy: McpApprovalPolicy): readonly CompiledPattern[] {
  const known = compiled.get(policy);
  if (known) return known;
  const patterns = Object.entries(policy.per_tool).map(([pattern, mode]) => ({
    matches: compilePattern(pattern),
    rank: strictness.indexOf(mode),
  }));
  if (Object.isFrozen(policy.per_tool)) compiled.set(policy, patterns);
  return patterns;
}
