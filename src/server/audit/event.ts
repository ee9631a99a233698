import type { JsonObject, JsonValue } from '../../base/json.ts';

/** A server or tool that a session did not get. */
export interface AuditExclusion {
  readonly server_id: string;
  readonly tool_name: string | null;
  readonly reason: string;
  readonly layer: string;
  readonly detail: string;
}

/** A call's arguments as the trail shows them: an object with nothing secret in it, `sha256:…`, or nothing. */
export type AuditArguments = JsonObject | string | null;

/** Which call it is. */
interface AuditCall {
  readonly session_id: string | null;
  readonly request_id: string;
  /** null for a tool inside the guest, and for a name that belongs to no server. */
  readonly server_id: string | null;
  /** Of a resource its uri. */
  readonly tool_name: string;
  /** What was asked for, where it was no tool. */
  readonly kind?: 'resource' | 'prompt';
}

/** What an approval is bound to, as hex. */
interface AuditApproval extends AuditCall {
  /** The revision of the registry at this moment; null: there is none. */
  readonly revision: number | null;
  /** Of the canonical arguments. */
  readonly args_sha256: string;
  /** Of the tool's definition. */
  readonly tool_sha256: string;
}

/** A request for an approval that a registry keeps. */
interface AuditSmsApproval {
  readonly approval_id: string;
  readonly approval_namespace: string;
  readonly run: string;
  readonly ordinal: string;
  readonly task_name: string | null;
  readonly session_id: string;
  readonly server_id: string;
  readonly kind: 'tool' | 'resource' | 'prompt';
  readonly tool_name: string;
  /** Of the canonical arguments, by a salt of the request. */
  readonly args_sha256: string;
  readonly tool_sha256: string;
  /** User who submitted the run; null: unknown. Absent in events of earlier versions. */
  readonly submitted_by?: string | null;
  /** How many have to allow it. */
  readonly needed: number;
  /** Names of those who said something so far. */
  readonly decided_by: string;
}

/** Something that a server asks during a call. */
interface AuditElicitation extends AuditCall {
  readonly mode: 'form' | 'url';
}

/** What happened to a guest, its sessions and its tools, or to a registry. */
export type AuditEvent =
  | {
      readonly event: 'guest.started';
      readonly module: string;
      /** Of the module's bytes, as hex; null: they could not be read. */
      readonly module_sha256: string | null;
    }
  | {
      readonly event: 'guest.ended';
      readonly status: string;
      readonly exit_code: number | null;
      readonly duration_ms: number;
    }
  | {
      readonly event: 'session.created';
      readonly session_id: string;
      readonly revision: number | null;
      readonly servers: readonly string[];
      readonly exclusions: readonly AuditExclusion[];
    }
  | {
      readonly event: 'mcp.injected';
      readonly session_id: string;
      readonly server_id: string;
      readonly status: 'ok' | 'failed';
      readonly reason: string | null;
      readonly tools: number;
      readonly exclusions: readonly AuditExclusion[];
      readonly duration_ms: number;
    }
  /** What was asked of the model and what it answered is never here. */
  | {
      readonly event: 'model_call.finished';
      readonly session_id: string;
      readonly backend: string;
      /** null: the backend chooses. */
      readonly model: string | null;
      readonly status: 'ok' | 'failed' | 'cancelled';
      /** The code of the error. */
      readonly reason: string | null;
      readonly duration_ms: number;
      /** As the backend counted them; null where it did not say. */
      readonly input_tokens: number | null;
      readonly output_tokens: number | null;
    }
  /** The call is about to be sent; of one that was refused before that, it stands right before its end. */
  | ({
      readonly event: 'tool_call.started';
      readonly source: 'native' | 'mcp';
      readonly args: AuditArguments;
    } & AuditCall)
  /** The server said how far it is; one of several times that it did. */
  | ({
      readonly event: 'tool_call.progress';
      readonly source: 'mcp';
      readonly progress: number;
      /** null: the server does not say. */
      readonly total: number | null;
    } & AuditCall)
  | ({
      readonly event: 'tool_call.finished';
      readonly source: 'native' | 'mcp';
      readonly status: 'ok' | 'denied' | 'failed';
      /** The code of the error, or the reason of the denial. */
      readonly reason: string | null;
      readonly duration_ms: number;
      readonly output_bytes: number;
      /** The revision of the registry that let the call through or stopped it; null where no registry was asked. */
      readonly revision: number | null;
    } & AuditCall)
  | ({
      readonly event: 'approval.asked';
      /** Why somebody has to be asked. */
      readonly reason: string;
      readonly args: AuditArguments;
    } & AuditApproval)
  | ({
      readonly event: 'approval.decided';
      readonly status: 'allowed' | 'denied';
      readonly decision: 'allow_once' | 'allow_session' | 'deny' | 'timeout' | 'cancelled' | 'rule';
      /** Who, or which rule. */
      readonly decided_by: string;
      readonly reason: string | null;
      readonly duration_ms: number;
    } & AuditApproval)
  /** A server asks whoever runs the guest something during a call. What it asks and what it is told is never here. */
  | ({
      readonly event: 'elicitation.asked';
      /** Of the address that is to be opened; null for a form. */
      readonly host: string | null;
    } & AuditElicitation)
  | ({
      readonly event: 'elicitation.answered';
      readonly action: 'accept' | 'decline' | 'cancel';
      /** `nobody`: it was put to nobody, or nobody answered. */
      readonly decided_by: string;
      readonly reason: string | null;
      readonly duration_ms: number;
    } & AuditElicitation)
  | {
      readonly event: 'registry.applied';
      /** Which registry counts these revisions: another one after a restore. Empty where it does not say. */
      readonly epoch: string;
      readonly revision: number;
      /** Ids of servers that are new or were changed, and of those that are gone: the first of them. */
      readonly upserted: readonly string[];
      readonly deleted: readonly string[];
      /** How many there are of each. */
      readonly upserts: number;
      readonly deletes: number;
    }
  /** The same of profiles, where the task names one. */
  | {
      readonly event: 'profiles.applied';
      /** Which registry counts these revisions: another one after a restore. Empty where it does not say. */
      readonly epoch: string;
      readonly revision: number;
      /** Names of those that are new or were changed, and of those that are gone: the first of them. */
      readonly upserted: readonly string[];
      readonly deleted: readonly string[];
      /** How many there are of each. */
      readonly upserts: number;
      readonly deletes: number;
    }
  | {
      /** What this node makes of its copy of the registry; `stale` and what follows from it stop every MCP call. */
      readonly event: 'registry.state';
      readonly state: 'ready' | 'degraded' | 'refused' | 'stale';
      readonly reason: string | null;
    }
  | {
      readonly event: 'budget.hit';
      readonly session_id: string | null;
      readonly server_id: string | null;
      readonly tool_name: string | null;
      readonly budget: string;
    }
  | {
      readonly event: 'sms.started';
      readonly epoch: string;
      readonly revision: number;
      readonly servers: number;
      readonly grpc: string;
      readonly http: string;
      /** False: everybody who reaches it is the admin. */
      readonly auth: boolean;
    }
  | { readonly event: 'sms.ended' }
  /** Where no write is made without its line: what is about to be written. `sms.record_changed` says that it was. */
  | ({
      readonly event: 'sms.write_started';
      /** The first of them, and how many there are. */
      readonly servers: readonly string[];
      readonly changes: number;
    } & AuditCaller)
  /** Values that may be secret are masked; an update has the fields that it changed. */
  | ({
      readonly event: 'sms.record_changed';
      readonly server_id: string;
      readonly action: 'create' | 'update' | 'delete';
      readonly revision: number;
      readonly fields: readonly string[];
      readonly before: object | null;
      readonly after: object | null;
    } & AuditCaller)
  /** The same of profiles. */
  | ({
      readonly event: 'sms.profile_write_started';
      readonly profiles: readonly string[];
      readonly changes: number;
    } & AuditCaller)
  | ({
      readonly event: 'sms.profile_changed';
      readonly profile: string;
      readonly action: 'create' | 'update' | 'delete';
      readonly revision: number;
      readonly fields: readonly string[];
      readonly before: object | null;
      readonly after: object | null;
    } & AuditCaller)
  /** Where nothing is decided without its line: what is about to be written. One of the next three says that it was. */
  | ({
      readonly event: 'sms.approval_write_started';
      readonly approval_id: string;
      readonly action: 'request' | 'decide' | 'end';
    } & AuditCaller)
  | ({
      readonly event: 'sms.approval_requested';
      /** Why somebody has to be asked. */
      readonly reason: string;
      readonly args: AuditArguments;
    } & AuditSmsApproval &
      AuditCaller)
  /** What one person, or one bot, said of it; `status` is what has become of it by that. */
  | ({
      readonly event: 'sms.approval_decided';
      readonly decision: 'allow_once' | 'allow_session' | 'deny';
      readonly status: string;
      readonly reason: string | null;
    } & AuditSmsApproval &
      AuditCaller)
  /** Used, not used in time, withdrawn, or decided by nobody in time. */
  | ({
      readonly event: 'sms.approval_ended';
      readonly status: string;
      readonly reason: string | null;
    } & AuditSmsApproval &
      AuditCaller)
  /** Somebody read what would be sent, whole. */
  | ({ readonly event: 'sms.approval_read' } & AuditSmsApproval & AuditCaller)
  /** Somebody was shown what a run said and was told. */
  | ({ readonly event: 'sms.journal_read'; readonly run: string; readonly run_namespace: string } & AuditCaller)
  /** The same of tokens, without their digests. */
  | ({
      readonly event: 'sms.token_write_started';
      readonly tokens: readonly string[];
      readonly changes: number;
    } & AuditCaller)
  | ({
      readonly event: 'sms.token_changed';
      readonly token: string;
      readonly action: 'create' | 'update' | 'delete';
      readonly revision: number;
      readonly fields: readonly string[];
      readonly before: object | null;
      readonly after: object | null;
    } & AuditCaller)
  /** The same of stops: `create` stops, `delete` lifts. */
  | ({
      readonly event: 'sms.stop_write_started';
      readonly stops: readonly string[];
      readonly changes: number;
    } & AuditCaller)
  | ({
      readonly event: 'sms.stop_changed';
      readonly stop_id: string;
      readonly action: 'create' | 'update' | 'delete';
      readonly revision: number;
      readonly fields: readonly string[];
      readonly before: object | null;
      readonly after: object | null;
    } & AuditCaller)
  /** The same of tasks, without what is in their revisions. */
  | ({
      readonly event: 'sms.task_write_started';
      readonly tasks: readonly string[];
      readonly changes: number;
    } & AuditCaller)
  | ({
      readonly event: 'sms.task_changed';
      readonly task_id: string;
      readonly action: 'create' | 'update' | 'delete';
      readonly revision: number;
      readonly fields: readonly string[];
      readonly before: object | null;
      readonly after: object | null;
    } & AuditCaller)
  /** Somebody logged in by an issuer; their requests are of `actor` until then. */
  | ({ readonly event: 'sms.login'; readonly expires_at: string } & AuditCaller)
  /** A request that asked for more than to read was answered. */
  | ({ readonly event: 'sms.served'; readonly code: string } & AuditCaller)
  | ({
      readonly event: 'sms.refused';
      /** `denied`: the caller may not; `failed`: what was asked cannot be done. */
      readonly status: 'denied' | 'failed';
      /** Of HTTP, or of gRPC. */
      readonly code: string;
      readonly reason: string;
    } & AuditCaller)
  | ({
      readonly event: 'sms.reloaded';
      readonly status: 'applied' | 'dry_run' | 'refused' | 'failed';
      readonly reason: string | null;
      readonly changes: number;
      readonly problems: number;
    } & AuditCaller)
  | AuditFold;

/** Who asked a registry for something, and from where. */
export interface AuditCaller {
  /** The name of who it was; null: nobody of ours. */
  readonly actor: string | null;
  /** Their roles, with commas between them; null: nobody of ours. */
  readonly role: string | null;
  /** The one that they are of, `*` for all; null: nobody of ours. */
  readonly namespace: string | null;
  /** The address; null: not over a network. */
  readonly peer: string | null;
  /** `process`: the registry itself, at its start or by a signal. */
  readonly via: 'http' | 'grpc' | 'process';
  readonly method: string;
}

/** Events of one kind that were counted and not written, because there were too many of them. */
export interface AuditFold extends FoldedKind {
  readonly event: 'events.folded';
  readonly count: number;
  readonly first_ts: string;
  readonly last_ts: string;
}

/** What folded events have in common; null: not a field of theirs, or not the same in all. */
export interface FoldedKind {
  /** The event. A call that was refused before it was sent counts once, as its `tool_call.finished`. */
  readonly of: string;
  readonly server_id: string | null;
  readonly tool_name: string | null;
  readonly status: string | null;
  readonly reason: string | null;
  readonly peer: string | null;
  readonly method: string | null;
}

/** Whose chain it is: told at its start, and again in every file that it goes on in. */
export interface AuditOrigin {
  readonly pid: number;
  /** The version of this program. */
  readonly spear: string;
  readonly host: string;
  /** null: the system has no name for it. */
  readonly user: string | null;
  /** The effective one; null where users have no number. */
  readonly uid: number | null;
  readonly keyed: boolean;
  /** Tells keys apart and says nothing of them; null: the chain has none. */
  readonly key_id: string | null;
}

/** What happened to the trail itself. */
export type AuditChainEvent =
  | ({ readonly event: 'chain.started' } & AuditOrigin)
  | ({ readonly event: 'chain.rotated' } & AuditOrigin)
  /** The end of the file was half a line: its writer died, or the disk was full. */
  | {
      readonly event: 'chain.repaired';
      readonly torn_bytes: number;
      readonly torn_sha256: string;
      readonly torn: string;
    }
  | { readonly event: 'chain.lost'; readonly lines: number; readonly reason: string }
  | { readonly event: 'chain.ended' };

/**
 * A line of the trail; `audit.schema.json` says the same as JSON Schema. Within a version fields may be added, none is
 * renamed or removed. `prev` is the hash of the line before in the same chain; `hash` is the sha256 of this line's bytes
 * without the hash itself, and in a chain with a key their HMAC-SHA256.
 */
export type AuditLine = (AuditEvent | AuditChainEvent) & {
  readonly v: typeof AUDIT_VERSION;
  readonly chain: string;
  readonly seq: number;
  /** ISO 8601, UTC. */
  readonly ts: string;
  /** Name of the task; null where none was given. */
  readonly task: string | null;
  /** The run of a guest; null for lines about the trail itself and of a registry. */
  readonly instance: string | null;
  readonly prev: string;
  readonly hash: string;
};

export const AUDIT_VERSION = 2;

/** The value of `decided_by` where no user and no rule decided. Versions since 0.2.0 write it. */
export const NO_DECIDER = 'nobody';

/** Where audit events go. Writing never waits, and never fails the work that is being audited. */
export interface AuditSink {
  write(instance: string, event: AuditEvent): void;
  /**
   * Both lines of a call that was refused before anything was sent. A guest makes such calls at no cost, so a trail may
   * fold them. @default each is written
   */
  readonly writeRefused?: (instance: string, started: CallStarted, finished: CallFinished) => void;
  /**
   * Where a call must not be made unless its lines are there: whether all that was written up to now is in the file.
   * @default nobody waits for the disk
   */
  readonly written?: () => Promise<boolean>;
  /** How the arguments of a call are shown; `undefined` is text that is no JSON. @default redacted */
  readonly showArguments?: (args: JsonValue | undefined) => AuditArguments;
  /**
   * The JSON text of a call's arguments as something that stands for them in a `tool_call.started` of this trail, which
   * shows them when it makes the line. To anybody else it is an empty object. @default they are shown at once
   */
  readonly keepArguments?: (text: string) => AuditArguments;
}

/** @deprecated use AuditSink */
export type AuditTrail = AuditSink;

export type CallStarted = Extract<AuditEvent, { event: 'tool_call.started' }>;
export type CallFinished = Extract<AuditEvent, { event: 'tool_call.finished' }>;

export const noAudit: AuditSink = Object.freeze({
  write: () => {},
  showArguments: () => null,
  keepArguments: () => null,
});

/** For every trail, also one that folds nothing. */
export function writeRefused(trail: AuditSink, instance: string, started: CallStarted, finished: CallFinished): void {
  if (trail.writeRefused) trail.writeRefused(instance, started, finished);
  else for (const event of [started, finished]) trail.write(instance, event);
}
