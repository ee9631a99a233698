import type { RegistryCache } from '../../registry-client/cache.ts';
import type { ToolJournal } from '../../runtime/durable/tool-journal.ts';
import type { CallKind, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { AuditSink } from '../../server/audit/event.ts';
import type { AllowedCalls } from '../policy/allowed-calls.ts';
import type { McpPool } from './client/pool.ts';
import type { ServerTroubleListener, ServerTroubles } from './server-troubles.ts';
import type { ToolEvents } from './tool-events.ts';

/** What all guests of a process share. */
export interface McpDeps {
  readonly pool: Pick<McpPool, 'startCall' | 'describeCall' | 'listTools' | 'listResources' | 'listPrompts'> &
    Partial<Pick<McpPool, 'step'>>;
  readonly registry: Pick<RegistryCache, 'view' | 'snapshot' | 'onPolicyChange'>;
  readonly audit: AuditSink;
  readonly events: ToolEvents;
  /** Where the tool calls of its run are written. @default nowhere */
  readonly journal?: ToolJournal | null;
  /** Who follows its calls. @default none */
  readonly trace?: CallTrace | null;
  /** Somebody is asked because of a call of this session: its deadlines stand still until what this gives is called. */
  readonly stopClocks?: ((session: string) => () => void) | undefined;
  /** Receives which servers the run lacks and waits for. @default none */
  readonly troubles?: ServerTroubleListener | undefined;
}

/** Follows the calls of a guest from when they are made: the trail says what becomes of them. */
export interface CallTrace {
  /** Gives what its server is told that the call is a part of (W3C Trace Context). */
  made(call: TracedCall): string;
}

export interface TracedCall {
  readonly session: string;
  readonly callId: string;
  readonly serverId: string;
  readonly tool: string;
  readonly kind?: CallKind | undefined;
}

/** The same for one guest: who it is, and what its task may use. */
export interface GuestScope extends Omit<McpDeps, 'troubles'> {
  readonly troubles: ServerTroubles;
  readonly run: string;
  readonly task: TaskPolicy;
  /** What that comes to, for its calls. */
  readonly allowed: AllowedCalls;
}

/** Of the registry, at this moment. */
export function revisionOf({ registry }: { readonly registry: Pick<RegistryCache, 'snapshot'> }): number | null {
  return registry.snapshot()?.revision ?? null;
}
