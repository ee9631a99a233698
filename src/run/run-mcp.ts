import type { ApprovalDecider } from '../agent/approvals/decider.ts';
import type { WatchWait } from '../agent/approvals/desk.ts';
import type { ElicitationDecider } from '../agent/mcp/client/elicitation/decider.ts';
import type { GuestMcp, GuestToolCall } from '../agent/mcp/guest-mcp.ts';
import type { CallTrace } from '../agent/mcp/guest-scope.ts';
import type { ServerTroubleListener } from '../agent/mcp/server-troubles.ts';
import type { TakeAnswer } from '../agent/mcp/tool-calls.ts';
import type { ToolEvents } from '../agent/mcp/tool-events.ts';
import type { ToolJournal } from '../runtime/durable/tool-journal.ts';
import type { AuditSink } from '../server/audit/event.ts';

/** What a run takes of MCP: {@link openMcp} opens one. */
export interface RunMcp {
  /** Name of the task, for whoever approves and for metrics. */
  readonly taskName: string | null;
  forRun(run: McpRun): McpOfRun;
}

/** The run that a guest belongs to, and who is told and asked about its calls. */
export interface McpRun {
  readonly run: string;
  readonly audit: AuditSink;
  readonly events: ToolEvents;
  /** `sms`: the people of the registry that the records come from. */
  readonly approve: ApprovalDecider | 'sms' | null;
  readonly elicit: ElicitationDecider | null;
  readonly decidedBy: string;
  /** User who submitted the run. @default unknown */
  readonly submittedBy?: string | null;
  readonly approvalTimeoutMs: number;
  /** Where its tool calls are written. @default nowhere */
  readonly journal?: ToolJournal | null;
  /** Who follows its tool calls. @default none */
  readonly trace?: CallTrace | null;
  /** Somebody is asked because of a call of this session: its deadlines stand still until what this gives is called. */
  readonly stopClocks?: ((session: string) => () => void) | undefined;
  /** Receives each approval request that waits for users of the registry. @default none */
  readonly waits?: WatchWait | undefined;
  /** Receives which servers the run lacks and waits for. @default none */
  readonly troubles?: ServerTroubleListener | undefined;
}

/** What a run asks of MCP. */
export interface RunningMcp
  extends Pick<
    GuestMcp,
    | 'task'
    | 'approvalRules'
    | 'revision'
    | 'underway'
    | 'inject'
    | 'open'
    | 'listTools'
    | 'listResources'
    | 'listPrompts'
    | 'registryList'
    | 'registryGet'
    | 'degraded'
    | 'requireServers'
  > {
  start(call: GuestToolCall, take: TakeAnswer): { cancel(reason: unknown): void };
}

/** MCP of one guest: its sessions and approvals are nobody else's. */
export interface McpOfRun {
  readonly guest: RunningMcp;
  close(): void;
}
