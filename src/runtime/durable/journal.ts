import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { StandardStream } from '../port/guest-spec.ts';
import type { Limits } from '../port/limits.ts';
import type { CallKind, TaskPolicy } from '../port/policy-layers.ts';

// What stands in a journal: docs/journal.md. A reader leaves out kinds and fields that it does not know.

/** Rises when a reader of the old form would be wrong about the new one. */
export const JOURNAL_FORMAT = 2;
/** Of formats before this one, what follows the last seal does not count. */
export const UNSEALED_SINCE_FORMAT = 2;

export const isReadFormat = (format: unknown): boolean =>
  typeof format === 'number' && Number.isInteger(format) && format >= 1 && format <= JOURNAL_FORMAT;

/** How sure it is that what was written stays: over the end of this process, or over that of the machine. */
export const journalSyncs = ['write', 'disk'] as const;
export type JournalSync = (typeof journalSyncs)[number];

/** What a run began with, and keeps. */
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
  /** `path`: where it was; null: the program had its bytes. */
  readonly wasm: { readonly sha256: string; readonly bytes: number; readonly path: string | null };
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly limits: Limits;
  readonly verbose: boolean;
  readonly unknown_imports: boolean;
  /** Whether a client side was attached to it. */
  readonly streams: boolean;
  /** Name of the task; null if it has none. */
  readonly task: string | null;
  /** What the task lets sessions ask for. */
  readonly policy: TaskPolicy;
  /** Rules about approvals, as configs have them. @default none */
  readonly approval_rules?: RecordedApprovalRules;
  /** Missing: the start of the guest woke its first wait, as earlier versions did, and the places of its replayLog count that. */
  readonly quiet_start?: true;
  /** What the command was told beside that, for whoever resumes; null: a program ran it. */
  readonly command: JsonObject | null;
}

/** Rules about approvals, of both layers. */
export interface RecordedApprovalRules {
  readonly node: readonly JsonObject[];
  readonly task: readonly JsonObject[];
}

/** What the guest's thread took, in the form of journal-events.ts. */
export interface GuestRecord {
  readonly t: 'guest';
  readonly e: string;
}

/** What a guest's session has of a send that ended. */
export interface RecordedSend {
  /** What the send added to the history. */
  readonly messages: readonly JsonObject[];
  /** A turn that waits for answers of the guest. */
  readonly turn: PendingTurn | null;
}

export interface PendingTurn {
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
    readonly result: string | null;
  }[];
  /** Which of the calls the guest is to answer. */
  readonly handed_back: readonly number[];
  readonly iterations: number;
  readonly tool_calls: number;
}

/** What the host told the guest about one of its calls. */
export interface ReplyRecord {
  readonly t: 'reply';
  readonly call: number;
  /** Of HostReply; bytes are `{"$bytes":base64}`, the result of a tool is `{"$result":ordinal}` where it is the same. */
  readonly m: readonly JsonValue[];
  readonly send?: RecordedSend;
  /** What the guest had asked, of a question about servers: its name, then what it names. */
  readonly q?: readonly (string | null)[];
}

/** A tool that a model was shown, and what stands behind its name. */
export interface ShownTool {
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  /** What the server says of it; left out where it says nothing. */
  readonly annotations?: JsonObject;
}

/** The tools of servers that a session's sends get from now on. */
export interface ToolsRecord {
  readonly t: 'tools';
  readonly session: string;
  /** The `mcp.*` parameters of the session. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** Which set of tools; what is in it stands where it is first named, and again after a resume. */
  readonly set: number;
  readonly shown?: readonly ShownTool[];
  /** As a request has them. */
  readonly definitions?: readonly JsonObject[];
  /** The message about them that each request has; null: none. */
  readonly system?: string | null;
}

export interface LastMessage {
  readonly role: string;
  /** Of a tool's result, which itself stands elsewhere. */
  readonly tool_call_id?: string;
  /** Its start, of any other. */
  readonly text?: string;
}

export interface ModelRequestRecord {
  readonly t: 'model.asked';
  /** Of the guest's send, and how many requests it had made before. */
  readonly call: number;
  readonly n: number;
  readonly session?: string;
  /** How many messages of the session's request before this one has too, the others, and what else is in it but tools. */
  readonly kept?: number;
  readonly said?: readonly JsonObject[];
  readonly head?: JsonObject;
  /** How the backend takes images; left out where it takes none. */
  readonly images?: string;
  readonly backend: string;
  readonly model: string | null;
  /** Of the request. */
  readonly sha256: string;
  /** How many messages it had. Older journals do not have it. */
  readonly messages?: number;
  /** The last of them, for people. Older journals do not have it. */
  readonly last?: LastMessage;
  /** The names that tools were shown under, where they are others than those of the request before. */
  readonly tools?: readonly string[];
  /** Of the registry, where there is one. */
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
  /** Names the call in its run: the guest's own call, `7`, or one of a model's turn, `5.2.1`. */
  readonly ordinal: string;
  readonly attempt: number;
  readonly session: string;
  /** @default tool */
  readonly kind?: CallKind;
  readonly server: string;
  readonly tool: string;
  /** As they are sent. */
  readonly args: string;
  readonly revision: number | null;
}

export interface ToolEndRecord {
  readonly t: 'tool.finished';
  readonly ordinal: string;
  /** The code of the error; null: none. */
  readonly code: string | null;
  readonly result: string;
  /** What was wanted, where it was refused and never started. */
  readonly refused?: RefusedTool;
}

export interface RefusedTool extends Pick<ToolStartRecord, 'session' | 'kind' | 'server' | 'tool'> {
  /** As they were given. */
  readonly args: string;
}

export interface ApprovalRecord {
  readonly t: 'approval';
  /** As in the audit trail. */
  readonly event: JsonObject;
}

export interface OutputRecord {
  readonly t: 'output';
  readonly fd: StandardStream;
  /** Where in the stream it begins. */
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
  /** Of a run that may be resumed: how much of its time is over. */
  readonly spent_ms?: number;
  /** The run must resume on a dedicated thread: its memory exceeded the limit of its shared thread. */
  readonly own_thread?: true;
  /** Of a run that was parked: when timers of its guest fire, by their numbers. */
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

/** With the milliseconds since the run began. */
export type TimedRecord = JournalRecord & { readonly ms: number };

/** Whether a run that ended so might have gone on, had it been let. */
export const isResumable = ({ reason }: Pick<EndRecord, 'reason'>): boolean =>
  ['interrupted', 'parked', 'journal', 'internal', 'lost'].includes(reason);
