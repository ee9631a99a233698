import type { ShownText } from './shown-text.ts';

/*
 * A run as people are shown it: what happened, from when to when. Whoever shows runs shows this. Its fields are those of
 * `spear journal show --json`: docs/journal.md. Texts in it are masked, and come from guests, models and servers: they
 * are still to be escaped for where they are shown.
 */

/** `unknown`: nobody knows whether it was done; `open`: nothing more was recorded of it. */
export type EntryStatus = 'ok' | 'failed' | 'denied' | 'unknown' | 'open';

interface Entry<Kind extends string> {
  readonly kind: Kind;
  /** Since the run began. */
  readonly start_ms: number;
  /** Null: its end is not in the journal. */
  readonly end_ms: number | null;
  readonly status: EntryStatus;
  /** The guest's send that it belongs to; null: none. */
  readonly send: number | null;
}

export interface ErrorShown {
  readonly code: string;
  readonly message: string;
}

export interface Tokens {
  readonly prompt: number;
  readonly completion: number;
}

export interface WantedCall {
  readonly id: string;
  readonly name: string;
  readonly args: ShownText;
}

/** From the first request to the answer that the guest got: the turns and calls of the same `send` are in it. */
export interface SendEntry extends Entry<'send'> {
  readonly error: ErrorShown | null;
}

/** One request to a model, and its answer. */
export interface ModelEntry extends Entry<'model'> {
  /** Which request of its send, from 1. */
  readonly turn: number;
  readonly backend: string;
  readonly model: string | null;
  /** The last message of the request; null: the journal does not have it. */
  readonly asked: { readonly role: string; readonly text: ShownText | null } | null;
  /** When the first piece of a streamed answer came; null: it was not streamed. */
  readonly first_ms: number | null;
  readonly tokens: Tokens | null;
  readonly text: ShownText | null;
  readonly calls: readonly WantedCall[];
  readonly error: ErrorShown | null;
}

/** A call of a tool: of an MCP server, inside the guest, or one that the host answered itself. */
export interface ToolEntry extends Entry<'tool'> {
  readonly source: 'mcp' | 'native' | 'host';
  /** Names a call of an MCP server in its run. */
  readonly ordinal: string | null;
  /** In which attempt of the run it was sent; null: it was not. */
  readonly attempt: number | null;
  readonly server: string | null;
  /** Null: the journal does not say which. */
  readonly tool: string | null;
  readonly args: ShownText | null;
  readonly result: ShownText | null;
  /** Of the error. */
  readonly code: string | null;
}

/** Somebody, or a rule, was asked whether a call may be made. */
export interface ApprovalEntry extends Entry<'approval'> {
  readonly server: string | null;
  readonly tool: string | null;
  readonly args: ShownText | null;
  /** Why somebody had to be asked; null: nobody had to. */
  readonly cause: string | null;
  readonly decision: string | null;
  readonly decided_by: string | null;
  /** What whoever decided said. */
  readonly reason: string | null;
}

/** What the guest printed or logged, in one go. */
export interface OutputEntry extends Entry<'output'> {
  readonly fd: 'stdout' | 'stderr';
  readonly at: number;
  readonly bytes: number;
  readonly text: ShownText;
}

/** Standard input that the guest took. */
export interface InputEntry extends Entry<'input'> {
  readonly bytes: number;
  readonly text: ShownText;
}

/** A sleep, or a wait that ran out of time: it ended at `end_ms` at the latest, and began at `start_ms` at the earliest. */
export interface WaitEntry extends Entry<'wait'> {
  readonly timers: number;
}

/** Something on a user stream. */
export interface StreamEntry extends Entry<'stream'> {
  readonly what: 'frames' | 'end' | 'gone' | 'event';
  readonly frames: number;
  readonly bytes: number;
}

/** What the host answered to another call of the guest: lists of tools, resources, prompts. */
export interface ReplyEntry extends Entry<'reply'> {
  readonly call: number;
  readonly errno: string | null;
  readonly body: ShownText | null;
}

export interface ResumedEntry extends Entry<'resumed'> {
  readonly attempt: number;
  readonly spear: string;
}

export interface EndEntry extends Entry<'end'> {
  readonly reason: string;
  readonly exit_code: number | null;
  readonly message: string | null;
}

export type TimelineEntry =
  | SendEntry
  | ModelEntry
  | ToolEntry
  | ApprovalEntry
  | OutputEntry
  | InputEntry
  | WaitEntry
  | StreamEntry
  | ReplyEntry
  | ResumedEntry
  | EndEntry;

/** How long somebody worked on the run without being ended. */
export interface Attempt {
  readonly attempt: number;
  readonly start_ms: number;
  readonly end_ms: number;
}

export interface TimelineTotals {
  readonly model_turns: number;
  /** Of the turns whose backend counted them. */
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly model_ms: number;
  readonly tool_calls: number;
  readonly tool_ms: number;
  /** Tool calls that nobody knows the end of. */
  readonly unknown: number;
  readonly approvals: number;
  readonly approval_ms: number;
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
}

export interface Timeline {
  readonly run: string;
  /** Milliseconds since the Unix epoch. */
  readonly started: number;
  readonly spear: string;
  readonly task: string | null;
  readonly module: { readonly path: string | null; readonly sha256: string; readonly bytes: number };
  readonly args: readonly ShownText[];
  /** The names alone. */
  readonly env: readonly string[];
  readonly attempts: readonly Attempt[];
  /** Null: the run was killed, or is still going on. */
  readonly ended: {
    readonly reason: string;
    readonly exit_code: number | null;
    readonly message: string | null;
  } | null;
  /** Bytes at the end of the journal that a crash cut off. */
  readonly torn_bytes: number;
  readonly totals: TimelineTotals;
  readonly entries: readonly TimelineEntry[];
}

/** How long an entry took; 0 where its end is not known. */
export const durationOf = ({ start_ms, end_ms }: Pick<TimelineEntry, 'start_ms' | 'end_ms'>): number =>
  end_ms === null ? 0 : Math.max(end_ms - start_ms, 0);
