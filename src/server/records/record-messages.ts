import type { McpServerRecord as WireRecord } from '../../generated/proto/sms/mcp_server_record_pb.ts';
import type { McpServerRecord } from './record.ts';

// The fields that are messages on the wire, whatever they hold: one that is left out says nothing, an empty one does.

type MessageField =
  | 'repeatable'
  | 'pins'
  | 'connection_scope'
  | 'client_features'
  | 'allowed_resources'
  | 'allowed_prompts'
  | 'namespaces';

export function ourMessages(record: McpServerRecord) {
  const { elicitation, roots } = record.client_features;
  return {
    repeatable: { patterns: [...record.repeatable] },
    pins: { sha256: { ...record.pins } },
    connectionScope: { scope: record.connection_scope },
    clientFeatures: {
      elicitation: [...elicitation],
      roots: roots.map(({ uri, name }) => ({ uri, name: name ?? '' })),
    },
    allowedResources: { patterns: [...record.allowed_resources] },
    allowedPrompts: { patterns: [...record.allowed_prompts] },
    namespaces: { patterns: [...record.namespaces] },
  };
}

export function ourMessagesInput(wire: WireRecord): Record<MessageField, unknown> {
  const { clientFeatures } = wire;
  return {
    repeatable: wire.repeatable?.patterns,
    pins: wire.pins?.sha256,
    connection_scope: wire.connectionScope?.scope,
    client_features: clientFeatures && {
      elicitation: clientFeatures.elicitation,
      roots: clientFeatures.roots.map(({ uri, name }) => ({ uri, name })),
    },
    allowed_resources: wire.allowedResources?.patterns,
    allowed_prompts: wire.allowedPrompts?.patterns,
    namespaces: wire.namespaces?.patterns,
  };
}

/** What an upsert leaves out stays as it is stored. */
export function upsertedMessages(wire: WireRecord, stored: McpServerRecord): Record<MessageField, unknown> {
  const given = ourMessagesInput(wire);
  const fields = Object.keys(given) as MessageField[];
  return Object.fromEntries(fields.map((field) => [field, given[field] ?? stored[field]])) as typeof given;
}
