import type { ApproverRule } from '../../config/registry/registry-config.ts';
import type { Approval } from '../../server/records/approval.ts';
import { compilePatterns } from '../policy/pattern.ts';

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

type Decided = Pick<Approval, 'requested_by' | 'submitted_by' | 'submitter' | 'votes'>;
/** The person behind the name of a user; null: the name is that of a revoked token. */
export type PersonOf = (name: string) => string | null;

/** Why a user may not decide about a call; null: the user may. `name` is null where users are not named. */
export function whyNot(
  rule: ApproverRule | null,
  approval: Decided,
  name: string | null,
  personOf: PersonOf,
): string | null {
  if (name === null) return null;
  const person = personOf(name) ?? name;
  const { requested_by: requestedBy, submitted_by: submittedBy, votes } = approval;
  if (!rule?.allowSelf) {
    if (name === requestedBy) return `"${name}" requested this approval; another user must decide it`;
    const submitter = approval.submitter ?? (submittedBy === null ? undefined : personOf(submittedBy));
    if (submitter === null) {
      return `the token "${submittedBy}" that submitted the run was revoked, so the person behind it is unknown; submit the run again`;
    }
    if (submitter === person) {
      return `${named(submittedBy ?? requestedBy, name)} submitted the run of this call; another user must decide it`;
    }
  }
  if (rule?.approvers && !compilePatterns(rule.approvers)(name)) {
    return `"${name}" is not an approver of the rule ${JSON.stringify(rule.name)}`;
  }
  const vote = votes.find(({ by, person: voter }) => by !== null && (voter ?? personOf(by) ?? by) === person);
  return vote ? `${named(vote.by, name)} has already voted; another approver must decide too` : null;
}

/** A name, and why it counts where it is another name of the same person. */
const named = (other: string | null, name: string) =>
  other === name ? `"${name}"` : `"${other}", a token of the same person as "${name}",`;

/** Whether one of the votes for a call is by the submitter of its run, who may not approve it. */
export function isSelfApproved(
  rule: ApproverRule | null,
  { submitted_by: submittedBy, submitter: stored, votes }: Decided,
  personOf: PersonOf,
): boolean {
  const submitter = stored ?? (submittedBy === null ? null : (personOf(submittedBy) ?? submittedBy));
  if (submitter === null || rule?.allowSelf) return false;
  return votes.some(
    ({ by, person }) => by !== null && (by === submittedBy || (person ?? personOf(by) ?? by) === submitter),
  );
}

/**
 * The rule that keeps a token name from admins of one namespace; null: none does. Such a rule names approvers and
 * reaches beyond the namespace, or needs more than one vote. A pattern of `*` alone reserves nothing.
 */
export function reservingRule(rules: readonly ApproverRule[], namespace: string, name: string): ApproverRule | null {
  return (
    rules.find(({ namespaces, approvers, needed }) => {
      const named = approvers?.filter((pattern) => !/^\*+$/.test(pattern)) ?? [];
      const reachesBeyond = namespaces.some((pattern) => pattern !== namespace);
      return (reachesBeyond || needed > 1) && compilePatterns(named)(name);
    }) ?? null
  );
}
