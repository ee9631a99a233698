import type { ApproverRule } from '../../config/sms/sms-config.ts';
import { compilePatterns } from '../../policy/pattern.ts';
import type { Approval } from '../../protocol/approval.ts';

type Judged = Pick<Approval, 'namespace' | 'server_id' | 'tool_name'>;

/** Of all rules the first that matches counts. */
export function ruleFor(
  rules: readonly ApproverRule[],
  { namespace, server_id, tool_name }: Judged,
): ApproverRule | null {
  return (
    rules.find(
      ({ namespaces, servers, tools }) =>
        compilePatterns(namespaces)(namespace) &&
        compilePatterns(servers)(server_id) &&
        compilePatterns(tools)(tool_name),
    ) ?? null
  );
}

/** Why somebody may not decide about a call; null: they may. `name` is null where everybody may do everything. */
export function whyNot(
  rule: ApproverRule | null,
  { requested_by: requestedBy, votes }: Pick<Approval, 'requested_by' | 'votes'>,
  name: string | null,
): string | null {
  if (name === null) return null;
  if (name === requestedBy) return `"${name}" requested this approval; another user must decide it`;
  if (rule?.approvers && !compilePatterns(rule.approvers)(name)) {
    return `"${name}" is not an approver of the rule ${JSON.stringify(rule.name)}`;
  }
  return votes.some(({ by }) => by === name) ? `"${name}" has already voted; another approver must decide too` : null;
}
