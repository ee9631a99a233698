import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { StandardStream } from '../port/guest-spec.ts';
import type { Limits } from '../port/limits.ts';
import type { CallKind, TaskPolicy } from '../port/policy-layers.ts';

// Records of a journal; docs/journal.md describes the format. A reader ignores kinds and fields that it does not know.

/** Incremented when a reader of the previous format would misread the new one. */
export const JOURNAL_FORMAT = 2;
/** In formats before this one, lines after the last seal do not count. */
export const UNSEALED_SINCE_FORMAT = 2;

export const isReadFormat = (format: unknown): boolean =>
  typeof format === 'number' && Number.isInteger(format) && format >= 1 && format <= JOURNAL_FORMAT;

/** Whether a write survives the end of this process, or also that of the machine. */
export const journalSyncs = ['write', 'disk'] as const;
export type JournalSync = (typeof journalSyncs)[number];

/** The inputs that a run began with. */
export interface JournalHeader {
  readonly t: 'header';
  readonly format: number;
  readonly run: string;
  /** Milliseconds since the Unix epoch; `ms` of the other records counts from here. */
  readonly started: number;
  readonly spear: string;
  readonly abi: readonly [major: number, minor: number];
  readonly v8: string;
  readonly arch: string;
  /** `path` null: the module was given as bytes. */
  readonly wasm: { readonly sha256: string; readonly bytes: number; readonly path: string | null };
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly limits: Limits;
  readonly verbose: boolean;
  readonly unknown_imports: boolean;
  /** Whether clients could connect to its user streams. */
  readonly streams: boolean;
  /** Name of the task; null: none. */
  readonly task: string | null;
  /** Policy of the task. */
  readonly policy: TaskPolicy;
  /** Approval rules, as in configs. @default none */
  readonly approval_rules?: RecordedApprovalRules;
  /** Missing: recorded by a version in which the start of the guest woke its first wait, which counts in the positions. */
  readonly quiet_start?: true;
  /** Other options of the command, for a resume; null: run by a program. */
  readonly command: JsonObject | null;
}

/** Approval rules of both layers. */
export interface RecordedApprovalRules {
  readonly node: readonly JsonObject[];
  readonly task: readonly JsonObject[];
}

/** Inputs of the guest thread, in the format of journal-events.ts. */
export interface GuestRecord {
  readonly t: 'guest';
  readonly e: string;
}

/** What a finished send left in its session. */
export interface RecordedSend {
  /** Messages that the send added. */
  readonly messages: readonly JsonObject[];
  /** A turn whose tool calls were handed back to the guest. */
  readonly turn: PendingTurn | null;
}

export interface PendingTurn {
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
    readonly result: string | null;
  }[];
  /** Indexes of the calls that the guest answers. */
  readonly handed_back: readonly number[];
  readonly iterations: number;
  readonly tool_calls: number;
}

/** A reply of the host to a call of the guest. */
export interface ReplyRecord {
  readonly t: 'reply';
  readonly call: number;
  /** A HostReply: bytes as `{"$bytes":base64}`, a recorded tool result as `{"$result":ordinal}`. */
  readonly m: readonly JsonValue[];
  readonly send?: RecordedSend;
  /** The query about servers that this answers: its op, then its argument. */
  readonly q?: readonly (string | null)[];
}

/** A tool shown to a model, with its server. */
export interface ShownTool {
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  /** Annotations by the server. @default none */
  readonly annotations?: JsonObject;
}

/** The server tools that the sends of a session get from now on. */
export interface ToolsRecord {
  readonly t: 'tools';
  readonly session: string;
  /** The `mcp.*` parameters of the session. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** Number of the set. Its content is in the first record that names it, and again after a resume. */
  readonly set: number;
  readonly shown?: readonly ShownTool[];
  /** As in a model request. */
  readonly definitions?: readonly JsonObject[];
  /** The inventory message of each request; null: none. */
  readonly system?: string | null;
}

export interface LastMessage {
  readonly role: string;
  /** Of a tool result, which has its own record. */
  readonly tool_call_id?: string;
  /** Start of the text of any other message. */
  readonly text?: string;
}

export interface ModelRequestRecord {
  readonly t: 'model.asked';
  /** The guest's send, and the index of the request in it. */
  readonly call: number;
  readonly n: number;
  readonly session?: string;
  /** `kept` messages of the session's previous request come first, then `said`; `head` has the other fields but tools. */
  readonly kept?: number;
  readonly said?: readonly JsonObject[];
  readonly head?: JsonObject;
  /** How the backend accepts images. @default not at all */
  readonly images?: string;
  readonly backend: string;
  readonly model: string | null;
  /** Digest of the request. */
  readonly sha256: string;
  /** Number of messages. Missing in older journals. */
  readonly messages?: number;
  /** The last message, for the timeline. Missing in older journals. */
  readonly last?: LastMessage;
  /** Names of the shown tools, if they differ from those of the previous request. */
  readonly tools?: readonly string[];
  /** Revision of the registry; null: none. */
  readonly revision: number | null;
}

export interface ModelResponseRecord {
  readonly t: 'model.answered';
  readonly call: number;
  readonly n: number;
  readonly body?: JsonObject;
  readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean };
}

export interface ToolStartRecord {
  readonly t: 'tool.started';
  /** Identifies the call in its run: `7` for the guest's own call, `5.2.1` for a call of a model's turn. */
  readonly ordinal: string;
  readonly attempt: number;
  readonly session: string;
  /** @default tool */
  readonly kind?: CallKind;
  readonly server: string;
  readonly tool: string;
  /** JSON as sent. */
  readonly args: string;
  readonly revision: number | null;
}

export interface ToolEndRecord {
  readonly t: 'tool.finished';
  readonly ordinal: string;
  /** Error code; null: success. */
  readonly code: string | null;
  readonly result: string;
  /** The request, if it was refused and never started. */
  readonly refused?: RefusedTool;
}

export interface RefusedTool extends Pick<ToolStartRecord, 'session' | 'kind' | 'server' | 'tool'> {
  /** JSON as given. */
  readonly args: string;
}

export interface ApprovalRecord {
  readonly t: 'approval';
  /** As in the audit log. */
  readonly event: JsonObject;
}

export interface OutputRecord {
  readonly t: 'output';
  readonly fd: StandardStream;
  /** Offset in the stream. */
  readonly at: number;
  /** Base64. */
  readonly b: string;
}

export interface ResumedRecord {
  readonly t: 'resumed';
  readonly attempt: number;
  readonly spear: string;
  readonly v8: string;
}

export interface EndRecord {
  readonly t: 'end';
  readonly reason: string;
  readonly exit: number | null;
  readonly message: string | null;
  /** Of a resumable run: time used of `limits.timeout_ms`. */
  readonly spent_ms?: number;
  /** The run must resume on a dedicated thread: its memory exceeded the limit of its shared thread. */
  readonly own_thread?: true;
  /** Of a parked run: when the timers of its guest fire. */
  readonly sleeps?: readonly (readonly [timer: number, atMs: number])[];
}

export type JournalRecord =
  | GuestRecord
  | ReplyRecord
  | ToolsRecord
  | ModelRequestRecord
  | ModelResponseRecord
  | ToolStartRecord
  | ToolEndRecord
  | ApprovalRecord
  | OutputRecord
  | ResumedRecord
  | EndRecord;

/** `ms`: milliseconds since the run began. */
export type TimedRecord = JournalRecord & { readonly ms: number };

/** Whether a run with this end can be resumed. */
export const isResumable = ({ reason }: Pick<EndRecord, 'reason'>): boolean =>
  ['interrupted', 'parked', 'journal', 'internal', 'lost'].includes(reason);
