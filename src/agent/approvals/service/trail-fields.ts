import { NO_DECIDER } from '../../../server/audit/event.ts';
import { type Approval, decidersOf } from '../../../server/records/approval.ts';

/** What the trail says of a request. */
export function trailFields(approval: Approval) {
  const { approval_id, namespace, run, ordinal, task, session: session_id, server_id, kind, tool_name } = approval;
  const { arguments_sha256: args_sha256, definition_sha256: tool_sha256, needed, submitted_by } = approval;
  const deciders = decidersOf(approval);
  return {
    approval_id,
    approval_namespace: namespace,
    run,
    ordinal,
    task_name: task,
    session_id,
    server_id,
    kind,
    tool_name,
    args_sha256,
    tool_sha256,
    submitted_by,
    needed,
    decided_by: deciders.length === 0 ? NO_DECIDER : deciders.join(', '),
  };
}
