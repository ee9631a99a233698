import { canonicalJson, type JsonValue } from '../../base/json.ts';
import type { McpProfile } from './profile.ts';
import { type ProfileShape, profileSchema } from './profile-schema.ts';
import { isServerId, type RecordIssue } from './record.ts';
import type { Parsed, ParseOptions, RecordKind } from './record-kind.ts';
import { recordLimits } from './record-limits.ts';
import { deepFreeze, MAX_REPORTED } from './record-parse.ts';
import { readFields, unknownFieldsOf } from './record-schema.ts';

export const profileKind: RecordKind<McpProfile> = {
  name: 'profile',
  idField: 'name',
  isId: isServerId,
  parse: parseProfile,
  mending: (id) => `apply it again with "spear profiles apply FILE", or remove it with "spear profiles rm ${id}"`,
};

/** Validates outside data and completes it with the defaults. Neither issues nor warnings repeat a value. */
export function parseProfile(input: unknown, { strict }: ParseOptions): Parsed<McpProfile> {
  const unknown = unknownFieldsOf(input, profileSchema).map((path) => ({
    path,
    message: 'is not a field of a profile',
  }));
  const read = readFields(profileSchema, input);
  const refused = strict ? unknown : [];
  if ('issues' in read) return { ok: false, issues: [...read.issues, ...refused].slice(0, MAX_REPORTED) };
  if (refused.length > 0) return { ok: false, issues: refused.slice(0, MAX_REPORTED) };
  const profile = complete(read.shape);
  const bytes = Buffer.byteLength(canonicalJson(profile as unknown as JsonValue));
  if (bytes > recordLimits.recordBytes) {
    const message = `the profile has ${bytes} bytes; the limit is ${recordLimits.recordBytes}`;
    return { ok: false, issues: [{ path: '', message }] };
  }
  return { ok: true, record: deepFreeze(profile), warnings: [...unknown, ...doubts(profile)].slice(0, MAX_REPORTED) };
}

function complete(shape: ProfileShape): McpProfile {
  return {
    name: shape.name,
    description: shape.description ?? '',
    server_ids: [...new Set(shape.server_ids)],
    server_tags: [...new Set(shape.server_tags)],
    tool_allowlist: shape.tool_allowlist,
    tool_denylist: shape.tool_denylist,
    allowed_tools: shape.allowed_tools,
    updated_at_ms: shape.updated_at_ms ?? 0,
    mod_revision: shape.mod_revision ?? 0,
  };
}

/** What is allowed and probably a mistake. */
function doubts(profile: McpProfile): RecordIssue[] {
  const warnings: RecordIssue[] = [];
  if (profile.server_ids.length === 0 && profile.server_tags.length === 0) {
    warnings.push({ path: 'server_ids', message: 'is empty, and so is server_tags: the profile has no server' });
  }
  if (profile.tool_allowlist?.length === 0) {
    warnings.push({ path: 'tool_allowlist', message: 'is empty, so the profile denies every tool' });
  }
  const strangers = Object.keys(profile.allowed_tools).filter((id) => !profile.server_ids.includes(id));
  if (profile.server_tags.length === 0 && strangers.length > 0) {
    warnings.push({ path: 'allowed_tools', message: 'names servers that are not in server_ids' });
  }
  return warnings;
}
