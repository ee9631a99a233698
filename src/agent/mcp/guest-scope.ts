import type { RegistryCache } from '../../registry-client/cache.ts';
import type { ToolJournal } from '../../runtime/durable/tool-journal.ts';
import type { CallKind, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { AuditSink } from '../../server/audit/event.ts';
import type { AllowedCalls } from '../policy/effective-set.ts';
import type { McpPool } from './client/pool.ts';
import type { ServerTroubleListener, ServerTroubles } from './server-troubles.ts';
import type { ToolEvents } from './tool-events.ts';

/** Shared by all guests of a process. */
export interface McpDeps {
  readonly pool: Pick<McpPool, 'startCall' | 'describeCall' | 'listTools' | 'listResources' | 'listPrompts'> &
    Partial<Pick<McpPool, 'step'>>;
  readonly registry: Pick<RegistryCache, 'view' | 'snapshot' | 'onPolicyChange'>;
  readonly audit: AuditSink;
  readonly events: ToolEvents;
  /** Journal of the run's tool calls. @default none */
  readonly journal?: ToolJournal | null;
  /** Tracer of the calls. @default none */
  readonly trace?: CallTrace | null;
  /** Pauses the deadlines of a session while a user is asked; the returned function resumes them. */
  readonly stopClocks?: ((session: string) => () => void) | undefined;
  /** Receives which servers the run lacks and waits for. @default none */
  readonly troubles?: ServerTroubleListener | undefined;
}

/** Traces the calls of a guest from their creation; their audit events end the spans. */
export interface CallTrace {
  /** Returns the trace context that is sent to the server (W3C). */
  made(call: TracedCall): string;
}

export interface TracedCall {
  readonly session: string;
  readonly callId: string;
  readonly serverId: string;
  readonly tool: string;
  readonly kind?: CallKind | undefined;
}

/** Context of one guest: its run, and what its task may use. */
export interface GuestScope extends Omit<McpDeps, 'troubles'> {
  readonly troubles: ServerTroubles;
  readonly run: string;
  readonly task: TaskPolicy;
  /** Policy decisions for its calls. */
  readonly allowed: AllowedCalls;
}

/** Current revision of the registry. */
export function revisionOf({ registry }: { readonly registry: Pick<RegistryCache, 'snapshot'> }): number | null {
  return registry.snapshot()?.revision ?? null;
}
