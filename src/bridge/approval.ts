import { compilePattern } from '../policy/pattern.ts';
import type { ApprovalMode, McpServerRecord } from '../protocol/record.ts';

const strictness: readonly ApprovalMode[] = ['never', 'policy', 'always'];

/** The mode for one tool: of all patterns that match, the strictest; the record's default if none does. */
export function approvalMode(record: Pick<McpServerRecord, 'approval_policy'>, tool: string): ApprovalMode {
  const { default: otherwise, per_tool: perTool } = record.approval_policy;
  const matching = Object.entries(perTool)
    .filter(([pattern]) => compilePattern(pattern)(tool))
    .map(([, mode]) => strictness.indexOf(mode));
  return matching.length === 0 ? otherwise : (strictness[Math.max(...matching)] as ApprovalMode);
}
