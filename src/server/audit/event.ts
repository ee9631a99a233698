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
 * A line of the trail; src/generated/audit.schema.json says the same as JSON Schema. Within a version fields may be added, none is
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
