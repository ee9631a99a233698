import { cutText } from '../../base/text.ts';
import type { McpServerRecord } from '../../server/records/server.ts';

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

/** Why a server or a tool is not there for a session: policy, or what happened on the node. Words of the audit trail. */
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
  /** A sentence for the log and the trail; never holds a secret. */
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
