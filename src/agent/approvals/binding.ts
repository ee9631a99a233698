import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { ApprovalRules } from '../policy/approval-rules.ts';
import { sha256 } from '../policy/definition-hash.ts';
import { policyHash } from '../policy/policy-hash.ts';

/** What a grant holds for. One that was given for a session is bound to no single call: to all of it but ordinal and arguments. */
export interface GrantBinding {
  /** JSON: its name, or null. */
  readonly task: string;
  readonly run: string;
  /** Names the call in its run. */
  readonly ordinal: string;
  /** The same names are used in every run. */
  readonly session: string;
  readonly server: string;
  readonly tool: string;
  /** sha256 of the canonical JSON. */
  readonly arguments: string;
  /** See hashDefinition. */
  readonly definition: string;
  /** The record's revision in the registry, and a hash of every list and rule that decides about the call. */
  readonly policy: string;
}

export const bindingFields = [
  'task',
  'run',
  'ordinal',
  'session',
  'server',
  'tool',
  'arguments',
  'definition',
  'policy',
] as const;

export const sessionBindingFields = bindingFields.filter((field) => field !== 'arguments' && field !== 'ordinal');

/** @throws RangeError for arguments that are nested beyond all measure */
export function hashArguments(args: JsonObject): string {
  return sha256(args);
}

export function policyRevision(
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  profile: McpProfile | null,
  rules: ApprovalRules,
): string {
  const { approval_policy: approval } = record;
  const lists = policyHash(record, task, session, profile);
  const offers = [task, session].map((layer) => [layer?.resourceLists ?? null, layer?.promptLists ?? null]);
  const decides = { lists, offers, approval, rules } as unknown as JsonValue;
  return `${record.mod_revision}:${sha256(decides)}`;
}
