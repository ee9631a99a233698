import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { LayerReason, PolicyLayer } from './decision.ts';
import type { ToolDefinition } from './definition-hash.ts';
import type { RegistryView } from './registry-view.ts';

/** What every layer is asked. */
export interface LayerQuestion {
  readonly serverId: string;
  /** As the server calls it, or the uri of a resource; null where the question is about the server. */
  readonly tool: string | null;
  /** What the server says of the tool; null where that is not known, or the question is about the server. */
  readonly definition: ToolDefinition | null;
  /** Null before the first snapshot. */
  readonly view: RegistryView | null;
  /** Null where the registry does not have the server. */
  readonly record: McpServerRecord | null;
  readonly task: TaskPolicy;
  /** The one that the task names; null where it names none, or one that is not there. */
  readonly profile: McpProfile | null;
  /** Null for a guest that calls MCP itself, outside a chat session. */
  readonly session: SessionPolicy | null;
}

/** One place where a layer can say no. Asking makes no text: it happens at every call, and most are let through. */
export interface LayerCheck {
  readonly layer: PolicyLayer;
  /** The field or key that is looked at. */
  readonly rule: string;
  /** Why this layer says no; null if it does not. */
  readonly denies: (question: LayerQuestion) => LayerReason | null;
  /** A denial as a sentence for the log and the trail; never holds a secret. */
  readonly detail: (question: LayerQuestion) => string;
  /** The pattern or id that decides; null: none does; undefined: the layer has nothing to say here. */
  readonly matched: (question: LayerQuestion) => string | null | undefined;
}
