// Apart from the service: these types are part of the library, and its declarations must not reach those of the port.
import type { WatchApproval } from '../agent/approvals/client.ts';
import type { ApprovalDecider } from '../agent/approvals/request.ts';
import type { ElicitationDecider } from '../agent/mcp/client/elicitation/question.ts';
import type { GuestMcp, GuestToolCall } from '../agent/mcp/guest-mcp.ts';
import type { CallTrace } from '../agent/mcp/guest-scope.ts';
import type { ServerTroubleListener } from '../agent/mcp/server-troubles.ts';
import type { TakeAnswer } from '../agent/mcp/tool-calls.ts';
import type { ToolEvents } from '../agent/mcp/tool-events.ts';
import type { ToolJournal } from '../runtime/durable/tool-journal.ts';
import type { AuditSink } from '../server/audit/event.ts';

/** MCP of a task, as `openMcp` opens it. */
export interface RunMcp {
  /** Name of the task, for approvers and metrics. */
  readonly taskName: string | null;
  forRun(run: McpRun): McpOfRun;
}

/** The run of a guest, with the observers and deciders of its calls. */
export interface McpRun {
  readonly run: string;
  readonly audit: AuditSink;
  readonly events: ToolEvents;
  /** `sms`: the users of the registry that the records come from. */
  readonly approve: ApprovalDecider | 'sms' | null;
  readonly elicit: ElicitationDecider | null;
  readonly decidedBy: string;
  /** User who submitted the run. @default unknown */
  readonly submittedBy?: string | null;
  readonly approvalTimeoutMs: number;
  /** Records tool calls. @default none */
  readonly journal?: ToolJournal | null;
  /** Spans of tool calls. @default none */
  readonly trace?: CallTrace | null;
  /** Pauses the deadlines of a session while an approver is asked. Returns a function that resumes them. */
  readonly stopClocks?: ((session: string) => () => void) | undefined;
  /** Receives each approval request that waits for users of the registry. @default none */
  readonly waits?: WatchApproval | undefined;
  /** Receives which servers the run lacks and waits for. @default none */
  readonly troubles?: ServerTroubleListener | undefined;
}

/** MCP as the services of a guest use it. */
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

/** MCP of one guest, with its own sessions and approvals. */
export interface McpOfRun {
  readonly guest: RunningMcp;
  close(): void;
}
