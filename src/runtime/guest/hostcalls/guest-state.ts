/*
 * State of one guest that its hostcalls share, and callbacks of guest tools. No state of a guest lives outside of it.
 *
 * Entries into an instance are one stack: a callback runs on top of the wait that caused it and ends before that wait
 * continues. Parts that a guest may never use are created on first use: thousands of guests wait on a thread.
 */
import type { JsonValue } from '../../../base/json.ts';
import type { CheckedParam } from '../../abi/chat-params.ts';
import type { ErrnoName } from '../../abi/errno.ts';
import type { DeterministicSources } from '../../durable/guest/sources.ts';
import type { SharedGuestTerms } from '../../port/guest-spec.ts';
import type { Limits } from '../../port/limits.ts';
import { mcpParamCheck } from '../../port/mcp-params.ts';
import type { Arena, ChatResponse, ToolRequest } from '../descriptors/chat-entries.ts';
import type { WaitPoint } from '../descriptors/readiness.ts';
import type { UserStream, UserStreamCtl } from '../descriptors/stream-entries.ts';
import { FdTable } from '../descriptors/table.ts';
import { GuestLog } from './guest-log.ts';
import type { HostLink, IdleReporter } from './host-link.ts';
import type { Output } from './output.ts';

/** Answer of a guest tool: its output, or an rc and, if known, the reason. */
export interface ToolAnswer {
  readonly rc: number;
  readonly content: string;
}

/** Runs a guest tool inside the instance. How depends on the binding: a component cannot be entered again. */
export type ToolRunner = (request: ToolRequest, arena: Arena) => Promise<ToolAnswer>;

/** User streams that the guest has open. */
export interface OpenStreams {
  /** Whether clients can connect to this run. */
  readonly areServed: boolean;
  readonly open: Set<UserStream>;
  ctl: UserStreamCtl | null;
  /** Started with the first stream; null: idle guests are not reported. */
  readonly rest: IdleReporter | null;
}

/** Implemented by `RunningGuestState`, and by the guest of the tests. */
export interface GuestState {
  readonly fds: FdTable;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  readonly limits: Limits;
  readonly sources: DeterministicSources;
  readonly log: GuestLog;
  readonly runTool: ToolRunner;
  readonly streams: OpenStreams;
  /** Callbacks of sends that returned at once: they run when the guest waits in epoll or for an event of a stream. */
  readonly waitingTools: { readonly response: ChatResponse; readonly request: ToolRequest }[];
  /** Checks a SET_PARAM of the `mcp.` keys against what the task allows; `undefined` for any other key. */
  readonly checkMcpParam: (key: string, value: JsonValue) => CheckedParam | ErrnoName | undefined;
  /** Bytes of all chat sessions, closed ones included until the host has released them. */
  chatBytes: number;
  /** Closed chat sessions that the host has not released. */
  closingSessions: number;
  /** Argument bytes of MCP calls that the host has not released. */
  mcpBytes: number;
  /** Bytes of responses and results whose descriptors are open. */
  answerBytes: number;
  /** Callbacks on the entry stack. */
  depth: number;
  /** Shows a notice to the user who runs the guest, once per text. */
  readonly notice: (text: string) => void;
}

const NS_PER_MS = 1e6;

export class RunningGuestState implements GuestState {
  readonly fds: FdTable;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  readonly sources: DeterministicSources;
  readonly waitingTools: GuestState['waitingTools'] = [];
  runTool: ToolRunner = noTools;
  chatBytes = 0;
  closingSessions = 0;
  mcpBytes = 0;
  answerBytes = 0;
  depth = 0;
  readonly #terms: SharedGuestTerms;
  readonly #output: Output;
  readonly #idleReporter: IdleReporter | null;
  #log: GuestLog | null = null;
  #streams: OpenStreams | null = null;
  #noticed: Set<string> | null = null;

  constructor(
    terms: SharedGuestTerms,
    output: Output,
    wait: WaitPoint,
    link: HostLink,
    sources: DeterministicSources,
    idleReporter: IdleReporter | null,
  ) {
    this.#terms = terms;
    this.#output = output;
    this.#idleReporter = idleReporter;
    this.fds = new FdTable(terms.limits.max_fds);
    this.wait = wait;
    this.link = link;
    this.sources = sources;
  }

  get limits(): Limits {
    return this.#terms.limits;
  }

  get checkMcpParam(): GuestState['checkMcpParam'] {
    return mcpParamCheck(this.#terms.mcpTask);
  }

  get log(): GuestLog {
    this.#log ??= this.#newLog();
    return this.#log;
  }

  get droppedLogLines(): number {
    return this.#log?.dropped ?? 0;
  }

  get streams(): OpenStreams {
    this.#streams ??= {
      areServed: this.#terms.servesStreams,
      open: new Set<UserStream>(),
      ctl: null,
      rest: this.#idleReporter,
    };
    return this.#streams;
  }

  notice(text: string): void {
    this.#noticed ??= new Set();
    if (this.#noticed.has(text)) return;
    this.#noticed.add(text);
    this.link.send(0, ['notice', text]);
  }

  #newLog(): GuestLog {
    const { verbose, limits } = this.#terms;
    const bytesPerSecond = limits.log_bytes_per_second;
    const dropped = `the guest logs more than limits.log_bytes_per_second = ${bytesPerSecond}: lines are dropped`;
    return new GuestLog(this.#output, {
      verbose,
      bytesPerSecond,
      now: () => Number(this.sources.monotonicNs()) / NS_PER_MS,
      onFirstDrop: () => this.notice(dropped),
    });
  }
}

const noTools: ToolRunner = () => {
  throw new Error('a tool was called before the instance existed');
};

/** Maximum nesting of callbacks. */
export const MAX_DEPTH = 8;

/** Runs one guest tool on top of the current wait and sends its answer to the host. */
export async function runTool(guest: GuestState, response: ChatResponse, request: ToolRequest): Promise<void> {
  const below = guest.link.parent;
  guest.link.parent = response.call;
  guest.depth++;
  response.callbacks++;
  try {
    const answer = await guest.runTool(request, response.arena);
    if (response.pending) {
      guest.link.send(response.call, ['tool_result', request.callback, answer.rc, answer.content]);
    }
  } finally {
    response.callbacks--;
    guest.depth--;
    guest.link.parent = below;
  }
}

/** Runs the oldest pending callback of background sends; false: none, or the stack is full. */
export async function runWaitingTool(guest: GuestState): Promise<boolean> {
  if (guest.depth >= MAX_DEPTH) return false;
  for (let next = guest.waitingTools.shift(); next; next = guest.waitingTools.shift()) {
    if (!next.response.pending) continue;
    await runTool(guest, next.response, next.request);
    return true;
  }
  return false;
}
