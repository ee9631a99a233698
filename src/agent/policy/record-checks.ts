import { namespaceOf } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { quoted } from './decision.ts';
import { hashDefinition, type ToolDefinition } from './definition-hash.ts';
import type { LayerCheck } from './layer-check.ts';
import { compilePatterns, firstMatching } from './pattern.ts';

/** What the record itself says: which namespaces, which tools, and which definitions of them. */

const EVERY_NAMESPACE = '*';

export const recordNamespaces: LayerCheck = {
  layer: 'registry',
  rule: 'namespaces',
  denies: ({ record, task }) => {
    if (record === null || record.namespaces.includes(EVERY_NAMESPACE)) return null;
    return compilePatterns(record.namespaces)(namespaceOf(task)) ? null : 'not_in_namespace';
  },
  detail: ({ serverId, task }) =>
    `the namespaces of the server ${quoted(serverId)} do not match ${quoted(namespaceOf(task))}`,
  matched: ({ record, task }) =>
    record === null || record.namespaces.includes(EVERY_NAMESPACE)
      ? undefined
      : firstMatching(record.namespaces, namespaceOf(task)),
};

export const recordTools: LayerCheck = {
  layer: 'registry',
  rule: 'allowed_tools',
  denies: ({ record, tool }) => {
    if (record === null) return null;
    if (record.allowed_tools.length === 0) return 'deny_all';
    return tool === null || compilePatterns(record.allowed_tools)(tool) ? null : 'denied_by_registry';
  },
  detail: ({ serverId, record, tool }) =>
    record?.allowed_tools.length === 0
      ? `the server ${quoted(serverId)} has no allowed_tools, so all are denied`
      : `the server's allowed_tools do not match ${quoted(tool ?? '')}`,
  matched: ({ record, tool }) =>
    record === null || tool === null ? undefined : firstMatching(record.allowed_tools, tool),
};

/** Silent where the definition is not known: it is asked again with it before a call is sent. */
export const recordPins: LayerCheck = {
  layer: 'registry',
  rule: 'pins',
  denies: ({ record, definition }) => {
    return definition !== null && isChanged(record, definition) ? 'pin_mismatch' : null;
  },
  detail: ({ definition }) =>
    `the definition of ${quoted(definition?.name ?? '')} does not match the pinned definition: review it; ` +
    `its sha256 is now ${definition === null ? '' : hashDefinition(definition)}`,
  matched: ({ record, definition }) => (definition === null ? null : pinOf(record, definition.name)) ?? undefined,
};

/** Why tools of the server are denied whatever the task: their definitions changed after they were pinned. Null: none did. */
export function pinProblem(record: McpServerRecord, tools: readonly ToolDefinition[]): string | null {
  const changed = tools.filter((definition) => isChanged(record, definition));
  if (changed.length === 0) return null;
  const [first] = changed;
  const others = changed.length === 1 ? '' : ` and ${changed.length - 1} more`;
  return `${quoted(first?.name ?? '')}${others} changed after being pinned: review with "spear servers pin ${record.server_id}"`;
}

function isChanged(record: McpServerRecord | null, definition: ToolDefinition): boolean {
  const pin = pinOf(record, definition.name);
  return pin !== null && pin !== hashDefinition(definition);
}

function pinOf(record: McpServerRecord | null, tool: string): string | null {
  if (record === null || !Object.hasOwn(record.pins, tool)) return null;
  return record.pins[tool] ?? null;
}
