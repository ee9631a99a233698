import type { JsonValue } from '../../../base/json.ts';
import type { CheckedParam } from '../../abi/chat-params.ts';
import type { ErrnoName } from '../../abi/errno.ts';
import type { Chance } from '../../durable/guest/chance.ts';
import type { Limits } from '../../port/limits.ts';
import type { Arena, ChatResponse, ToolRequest } from '../descriptors/chat-entries.ts';
import type { WaitPoint } from '../descriptors/readiness.ts';
import type { UserStream, UserStreamCtl } from '../descriptors/stream-entries.ts';
import type { FdTable } from '../descriptors/table.ts';
import type { GuestLog } from './guest-log.ts';
import type { HostLink } from './host-link.ts';
import type { StreamRest } from './stream-rest.ts';

/** What a guest tool answered: the output, or the rc that the model is told about and, where it is known, why. */
export interface ToolAnswer {
  readonly rc: number;
  readonly content: string;
}

/** Runs a guest tool inside the instance. How depends on the binding: a component cannot be entered again. */
export type ToolRunner = (request: ToolRequest, arena: Arena) => Promise<ToolAnswer>;

/** What a guest has open towards whoever sits at the other end of its run. */
export interface OpenStreams {
  /** Whether this run has such an end at all. */
  readonly areServed: boolean;
  readonly open: Set<UserStream>;
  ctl: UserStreamCtl | null;
  /** Told that the guest has one; null: nobody minds how long it waits. */
  readonly rest: StreamRest | null;
}

/** Everything the hostcalls of one instance share. No state of a guest lives outside of it. */
export interface GuestState {
  readonly fds: FdTable;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  readonly limits: Limits;
  readonly chance: Chance;
  readonly log: GuestLog;
  readonly runTool: ToolRunner;
  readonly streams: OpenStreams;
  /** Callbacks of sends that returned at once: they run when the guest waits in epoll or for an event of a stream. */
  readonly waitingTools: { readonly response: ChatResponse; readonly request: ToolRequest }[];
  /** Checks a SET_PARAM of the `mcp.` keys against what the task allows; `undefined` for any other key. */
  readonly checkMcpParam: (key: string, value: JsonValue) => CheckedParam | ErrnoName | undefined;
  /** What all chat sessions of the guest hold together, closed ones included until the host has let go of them. */
  chatBytes: number;
  /** Closed chat sessions that the host has not let go of. */
  closingSessions: number;
  /** Arguments of MCP calls that the host has not let go of. */
  mcpBytes: number;
  /** Answers that the guest has not closed. */
  answerBytes: number;
  /** Callbacks on the entry stack. */
  depth: number;
  /** Says something to the person who runs the guest, once per text. */
  readonly notice: (text: string) => void;
}
