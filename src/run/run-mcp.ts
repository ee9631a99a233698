import type { AuditTrail } from '../audit/event.ts';
import type { ApprovalDecider } from '../mcp/approval/decider.ts';
import type { GuestMcp } from '../mcp/guest-mcp.ts';
import type { ToolEvents } from '../mcp/tool-events.ts';

/** What a run takes of MCP: {@link openMcp} opens one. */
export interface RunMcp {
  /** Name of the task, for whoever approves and for metrics. */
  readonly taskName: string | null;
  forRun(run: McpRun): McpOfRun;
}

/** The run that a guest belongs to, and who is told and asked about its calls. */
export interface McpRun {
  readonly run: string;
  readonly audit: AuditTrail;
  readonly events: ToolEvents;
  readonly approve: ApprovalDecider | null;
  readonly decidedBy: string;
  readonly approvalTimeoutMs: number;
}

/** MCP of one guest: its sessions and approvals are nobody else's. */
export interface McpOfRun {
  readonly guest: GuestMcp;
  close(): void;
}
