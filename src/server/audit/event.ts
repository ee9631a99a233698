import type { z } from 'zod';
import type { JsonValue } from '../../base/json.ts';
import type { AuditArguments, auditCaller, auditEvents, chainEvents, exclusion, foldedKind } from './event-schema.ts';

export type { AuditArguments } from './event-schema.ts';

/** A server or tool that a session did not get. */
export type AuditExclusion = Readonly<z.infer<typeof exclusion>>;
/** What happened to a guest, its sessions and its tools, or to a registry. Fields are defined in event-schema.ts. */
export type AuditEvent = z.infer<(typeof auditEvents)[number]['object']>;
/** Who asked a registry for something, and from where. */
export type AuditCaller = Readonly<z.infer<typeof auditCaller>>;
/** Events of one kind that were counted and not written, because there were too many of them. */
export type AuditFold = Extract<AuditEvent, { event: 'events.folded' }>;
/** What folded events have in common. */
export type FoldedKind = Readonly<z.infer<typeof foldedKind>>;
/** What happened to the audit log itself. */
export type AuditChainEvent = z.infer<(typeof chainEvents)[number]['object']>;
/** The process that writes a chain. */
export type AuditOrigin = Omit<Extract<AuditChainEvent, { event: 'chain.started' }>, 'event'>;

/**
 * A line of the audit log; src/generated/audit.schema.json is its JSON Schema. A version may add fields, but renames and
 * removes none. `prev` is the hash of the line before in the same chain; `hash` is the sha256 of this line's bytes
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
  /** The run of a guest; null for events of the audit log itself and of a registry. */
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
   * Writes both lines of a call that was denied before dispatch. Such calls cost a guest nothing, so an audit log may fold
   * them. @default each is written
   */
  readonly writeRefused?: (instance: string, started: CallStarted, finished: CallFinished) => void;
  /**
   * Where a call must not be made unless its lines are there: whether all that was written up to now is in the file.
   * @default writes do not wait for the disk
   */
  readonly written?: () => Promise<boolean>;
  /** How the arguments of a call are shown; `undefined` is text that is no JSON. @default redacted */
  readonly showArguments?: (args: JsonValue | undefined) => AuditArguments;
  /**
   * Returns a placeholder for a call's arguments in `tool_call.started`, made from their JSON text. The audit log renders
   * it when it writes the line; all other code sees an empty object. @default arguments are rendered at once
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

/** Applies to every audit log, also without folding. */
export function writeRefused(trail: AuditSink, instance: string, started: CallStarted, finished: CallFinished): void {
  if (trail.writeRefused) trail.writeRefused(instance, started, finished);
  else for (const event of [started, finished]) trail.write(instance, event);
}
