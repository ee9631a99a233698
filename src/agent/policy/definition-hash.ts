import { createHash } from 'node:crypto';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { connectionKey } from '../../server/records/record-kind.ts';
import type { McpServerRecord } from '../../server/records/server.ts';

/** What an approval and a pin are bound to of a tool: all that its server says of it before it is called. */
export interface ToolDefinition {
  readonly name: string;
  /** Text of the server: not to be trusted. */
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Null: it has none, or none that can be used. */
  readonly outputSchema: JsonObject | null;
  /** Hints of the server about itself: not to be trusted. */
  readonly annotations: JsonObject | null;
}

/** Reads a tool definition from a server or a recording; every field is untrusted and may be absent. */
export function readDefinition(given: JsonObject): ToolDefinition {
  const object = (value: JsonValue | undefined) => (isJsonObject(value) ? value : null);
  return {
    name: String(given.name ?? ''),
    description: String(given.description ?? ''),
    inputSchema: object(given.inputSchema) ?? {},
    outputSchema: object(given.outputSchema),
    annotations: object(given.annotations),
  };
}

// All calls share a tool list until the server lists its tools again.
const hashes = new WeakMap<ToolDefinition, string>();

/** The same for two definitions exactly when the server says the same of the tool, in whatever order of keys. */
export function hashDefinition(definition: ToolDefinition): string {
  const known = hashes.get(definition);
  if (known !== undefined) return known;
  const { name, description, inputSchema, outputSchema, annotations } = definition;
  const hash = sha256({ name, description, inputSchema, outputSchema, annotations });
  if (Object.isFrozen(definition)) hashes.set(definition, hash);
  return hash;
}

/** Of the canonical JSON. @throws RangeError for values that are nested beyond all measure */
export function sha256(value: JsonValue): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

type ToolLists = Pick<TaskPolicy, 'toolAllowlist' | 'toolDenylist'>;

/**
 * The same for two guests exactly when they see the same tools of this server: what it is connected to and every list
 * that filters its tools. The order and repetition of patterns do not matter.
 */
export function policyHash(
  record: McpServerRecord,
  task: ToolLists & Pick<TaskPolicy, 'profile'>,
  session: Pick<SessionPolicy, 'toolAllowlist' | 'toolDenylist'> | null,
  profile: McpProfile | null,
): string {
  const decides: JsonValue = {
    server: record.server_id,
    connection: connectionKey(record),
    allowed: patternSet(record.allowed_tools),
    pins: record.pins,
    task: listsOf(task),
    profile: selectionFor(record.server_id, profile),
    overrides: selectionFor(record.server_id, task.profile?.overrides ?? null),
    session: session === null ? listsOf({ toolAllowlist: null, toolDenylist: [] }) : listsOf(session),
  };
  return createHash('sha256').update(canonicalJson(decides)).digest('hex');
}

type Selection = Pick<McpProfile, 'tool_allowlist' | 'tool_denylist' | 'allowed_tools'>;

function selectionFor(serverId: string, selection: Selection | null): JsonValue {
  if (selection === null) return null;
  const { tool_allowlist: toolAllowlist, tool_denylist: toolDenylist, allowed_tools: all } = selection;
  const own = Object.hasOwn(all, serverId) ? all[serverId] : undefined;
  return { lists: listsOf({ toolAllowlist, toolDenylist }), own: own === undefined ? null : patternSet(own) };
}

function listsOf(lists: ToolLists): JsonValue {
  return {
    allow: lists.toolAllowlist === null ? null : patternSet(lists.toolAllowlist),
    deny: patternSet(lists.toolDenylist),
  };
}

function patternSet(patterns: readonly string[]): string[] {
  return [...new Set(patterns)].sort();
}
