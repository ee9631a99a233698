import { cutText } from '../../base/text.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { ToolDefinition } from './definition-hash.ts';

/** Why a layer of policy says no. */
export type LayerReason =
  | 'disabled'
  | 'registry_not_ready'
  | 'stale_registry'
  | 'stopped'
  | 'unknown_server'
  | 'not_in_namespace'
  | 'not_allowed'
  | 'not_requested'
  | 'not_tagged'
  | 'unknown_profile'
  | 'not_in_profile'
  | 'deny_all'
  | 'denied_by_registry'
  | 'pin_mismatch'
  | 'denied_by_profile'
  | 'denied_by_task'
  | 'denied_by_session';

/** Why a session has no access to a server or tool: policy, or an event on the node. Part of the audit log. */
export type ExclusionReason =
  | LayerReason
  | 'env_missing'
  | 'env_refused'
  | 'list_failed'
  | 'list_timeout'
  | 'name_collision'
  | 'schema_invalid';

/** Who decided: the registry's record, its profile, the task's config, the session's parameters, or what happened on the node. */
export type PolicyLayer = 'registry' | 'profile' | 'task' | 'session' | 'node';

export interface Denial {
  readonly allowed: false;
  readonly reason: ExclusionReason;
  readonly layer: PolicyLayer;
  /** Description for the log and the audit log; never contains a secret. */
  readonly detail: string;
}

/** Whether a server may be used or a tool called, and by which record. */
export type Decision = { readonly allowed: true; readonly record: McpServerRecord } | Denial;

/** Stands for every server in a line of the decision log: a task that lists none has no id to name. */
export const EVERY_SERVER = '*';

/** A line of the decision log. `tool` is null where the whole server is left out. */
export interface Exclusion {
  readonly serverId: string;
  readonly tool: string | null;
  readonly reason: ExclusionReason;
  readonly layer: PolicyLayer;
  readonly detail: string;
}

export function deny(reason: ExclusionReason, layer: PolicyLayer, detail: string): Denial {
  return Object.freeze({ allowed: false, reason, layer, detail });
}

export function exclusion(serverId: string, tool: string | null, denial: Denial): Exclusion {
  const { reason, layer, detail } = denial;
  return Object.freeze({ serverId, tool, reason, layer, detail });
}

/** Names come from guests and models: no longer than this, and without control characters, in a detail. */
const SHOWN_NAME_CHARS = 128;

export function quoted(name: string): string {
  return JSON.stringify(cutText(name, SHOWN_NAME_CHARS));
}

/** What policy sees of the registry. `stale` is a snapshot older than the node's max_staleness_ms. */
export interface RegistryView {
  readonly servers: ReadonlyMap<string, McpServerRecord>;
  readonly stale: boolean;
  /** Null where none were received: they are asked for only where the task names one. */
  readonly profiles: ProfilesView | null;
  /** Active stops by id; left out: the records come from a source that has none. */
  readonly stops?: ReadonlyMap<string, StopRecord>;
}

export interface ProfilesView {
  readonly byName: ReadonlyMap<string, McpProfile>;
  readonly stale: boolean;
}

/** The first of the wanted tags that a server has. */
export function sharedTag(wanted: readonly string[], { tags }: McpServerRecord): string | null {
  return wanted.find((tag) => tags.includes(tag)) ?? null;
}

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
  /** Description of a denial for the log and the audit log; never contains a secret. */
  readonly detail: (question: LayerQuestion) => string;
  /** The pattern or id that decides; null: none does; undefined: the layer has nothing to say here. */
  readonly matched: (question: LayerQuestion) => string | null | undefined;
}
