import { McpApprovalError } from '../mcp/client/errors.ts';

/** Why a call was not approved, in the words of the audit trail. */
export type ApprovalDenial =
  /** It needs an approval, and there is nobody to give it. */
  | 'approval_required'
  | 'approval_denied'
  | 'approval_timeout'
  /** A rule says no. */
  | 'denied_by_rule'
  /** More calls wait for an answer than are kept. */
  | 'approval_queue_full'
  /** What was approved is not what is to be done now: it has to be asked about again. */
  | 'approval_outdated';

/** The call is not made. The message is for the model. */
export class ApprovalRefused extends McpApprovalError {
  readonly denial: ApprovalDenial;

  constructor(serverId: string, denial: ApprovalDenial, message: string) {
    super(serverId, message);
    this.denial = denial;
  }
}

export function isOutdated(error: unknown): boolean {
  return error instanceof ApprovalRefused && error.denial === 'approval_outdated';
}
