import { create } from '@bufbuild/protobuf';
import { McpProfileSchema, type McpProfile as WireProfile } from '../../generated/proto/sms/mcp_profile_pb.ts';
import type { McpProfile } from './profile.ts';

export function profileToWire(profile: McpProfile): WireProfile {
  const { tool_allowlist: allowlist } = profile;
  return create(McpProfileSchema, {
    name: profile.name,
    description: profile.description,
    serverIds: [...profile.server_ids],
    serverTags: [...profile.server_tags],
    ...(allowlist === null ? {} : { toolAllowlist: { patterns: [...allowlist] } }),
    toolDenylist: [...profile.tool_denylist],
    allowedTools: Object.fromEntries(
      Object.entries(profile.allowed_tools).map(([id, patterns]) => [id, { patterns: [...patterns] }]),
    ),
    updatedAtMs: BigInt(profile.updated_at_ms),
    modRevision: BigInt(profile.mod_revision),
  });
}

/** What a peer sent, in the shape that `parseProfile` takes. Nothing is checked here. */
export function wireToProfileInput(wire: WireProfile): Record<string, unknown> {
  return {
    ...profileContent(wire),
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
}

/** Without what the store writes: for an upsert. */
export function profileContent(wire: WireProfile): Record<string, unknown> {
  return {
    name: wire.name,
    description: wire.description,
    server_ids: wire.serverIds,
    server_tags: wire.serverTags,
    tool_allowlist: wire.toolAllowlist?.patterns ?? null,
    tool_denylist: wire.toolDenylist,
    allowed_tools: Object.fromEntries(Object.entries(wire.allowedTools).map(([id, { patterns }]) => [id, patterns])),
  };
}
