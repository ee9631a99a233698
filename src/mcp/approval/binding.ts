import { createHash } from 'node:crypto';
import { canonicalJson, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { ApprovalRules } from '../../policy/approval-rules.ts';
import { policyHash } from '../../policy/policy-hash.ts';
import type { SessionPolicy, TaskPolicy } from '../../protocol/policy-layers.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import type { ToolDefinition } from './decider.ts';

/** What a grant holds for. One that was given for a session is not bound to the arguments, to everything else it is. */
export interface GrantBinding {
  readonly task: string;
  readonly session: string;
  readonly server: string;
  readonly tool: string;
  /** sha256 of the canonical JSON. */
  readonly arguments: string;
  /** sha256 of name, description, input schema and annotations. */
  readonly definition: string;
  /** The record's revision in the registry, and a hash of every list and rule that decides about the call. */
  readonly policy: string;
}

export const bindingFields = ['task', 'session', 'server', 'tool', 'arguments', 'definition', 'policy'] as const;

const sha256 = (value: JsonValue) => createHash('sha256').update(canonicalJson(value)).digest('hex');

/** @throws RangeError for arguments that are nested beyond all measure */
export function hashArguments(args: JsonObject): string {
  return sha256(args);
}

// A list of tools is shared by all calls until the server lists anew.
const definitionHashes = new WeakMap<ToolDefinition, string>();

export function hashDefinition(definition: ToolDefinition): string {
  const known = definitionHashes.get(definition);
  if (known !== undefined) return known;
  const { name, description, inputSchema, annotations } = definition;
  const hash = sha256({ name, description, inputSchema, annotations });
  if (Object.isFrozen(definition)) definitionHashes.set(definition, hash);
  return hash;
}

export function policyRevision(
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  rules: ApprovalRules,
): string {
  const { approval_policy: approval } = record;
  const decides = { lists: policyHash(record, task, session), approval, rules } as unknown as JsonValue;
  return `${record.mod_revision}:${sha256(decides)}`;
}
