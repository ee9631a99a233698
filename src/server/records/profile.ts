import { z } from 'zod';
import { canonicalJson, type JsonValue } from '../../base/json.ts';
import { textProblem } from '../../base/text.ts';
import { isServerId, recordLimits, serverIdRule } from './field-rules.ts';
import {
  checked,
  deepFreeze,
  type Frozen,
  list,
  MAX_REPORTED,
  map,
  optional,
  readFields,
  storeStamps,
  unknownFields,
} from './fields.ts';
import type { Parsed, ParseOptions, RecordIssue, RecordKind } from './record-kind.ts';
import { pattern, patterns, serverId, tag } from './server.ts';

export const profileLimits = {
  descriptionChars: 1_024,
  serverIds: 1_024,
} as const;

const unique = (values: readonly string[]): string[] => [...new Set(values)];
const namedPatterns = z.array(pattern).max(recordLimits.patterns);

const profileSchema = z.object({
  version: optional(z.literal(1)),
  name: serverId,
  description: optional(checked((text) => textProblem(text, profileLimits.descriptionChars))).transform(
    (text) => text ?? '',
  ),
  /** A server belongs to the profile if its id is listed here, or if it has one of the tags. */
  server_ids: list(serverId, profileLimits.serverIds).transform(unique),
  server_tags: list(tag, recordLimits.tags).transform(unique),
  /** Null: the profile does not narrow the tools; empty: no tool is allowed. */
  tool_allowlist: optional(namedPatterns),
  tool_denylist: patterns,
  /** Server id to patterns, for servers whose tools are narrowed further. */
  allowed_tools: map(
    (id) => (isServerId(id) ? null : `must be ${serverIdRule}`),
    namedPatterns,
    profileLimits.serverIds,
  ),
  ...storeStamps,
});

/**
 * A named selection of MCP servers and of their tools, which tasks refer to. A profile only narrows: it never allows what a
 * server's record does not allow. Complete and deeply frozen, like a server.
 */
export interface McpProfile extends Frozen<Omit<z.output<typeof profileSchema>, 'version'>> {}

export const profileKind: RecordKind<McpProfile> = {
  name: 'profile',
  idField: 'name',
  isId: isServerId,
  parse: parseProfile,
  repair: (id) => `apply it again with "spear profiles apply FILE", or remove it with "spear profiles rm ${id}"`,
};

/** Validates outside data and completes it with the defaults. Neither errors nor warnings repeat a value. */
export function parseProfile(input: unknown, { strict }: ParseOptions): Parsed<McpProfile> {
  const unknown = unknownFields(input, profileSchema).map((path) => ({ path, message: 'is not a field of a profile' }));
  const read = readFields(profileSchema, input);
  const issues = [...('issues' in read ? read.issues : []), ...(strict ? unknown : [])].slice(0, MAX_REPORTED);
  if ('issues' in read || issues.length > 0) return { ok: false, issues };
  const { version: _version, ...profile } = read.shape;
  const bytes = Buffer.byteLength(canonicalJson(profile as unknown as JsonValue));
  if (bytes > recordLimits.recordBytes) {
    const message = `the profile has ${bytes} bytes; the limit is ${recordLimits.recordBytes}`;
    return { ok: false, issues: [{ path: '', message }] };
  }
  const warnings = [...unknown, ...likelyMistakes(profile)].slice(0, MAX_REPORTED);
  return { ok: true, record: deepFreeze(profile), warnings };
}

/** Warnings about values that are valid and probably a mistake. */
function likelyMistakes(profile: McpProfile): RecordIssue[] {
  const warnings: RecordIssue[] = [];
  if (profile.server_ids.length === 0 && profile.server_tags.length === 0) {
    warnings.push({ path: 'server_ids', message: 'is empty, and so is server_tags: the profile has no server' });
  }
  if (profile.tool_allowlist?.length === 0) {
    warnings.push({ path: 'tool_allowlist', message: 'is empty, so the profile denies every tool' });
  }
  const unlisted = Object.keys(profile.allowed_tools).filter((id) => !profile.server_ids.includes(id));
  if (profile.server_tags.length === 0 && unlisted.length > 0) {
    warnings.push({ path: 'allowed_tools', message: 'names servers that are not in server_ids' });
  }
  return warnings;
}
