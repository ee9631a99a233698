import { type McpProfile, parseProfile } from '../../../src/server/records/profile.ts';

/** A profile with the given fields; the rest are defaults. */
export function sampleProfile(name: string, fields: Partial<McpProfile> = {}): McpProfile {
  const parsed = parseProfile({ name, ...fields }, { strict: true });
  if (!parsed.ok) throw new Error(`the sample profile is not valid: ${JSON.stringify(parsed.issues)}`);
  return parsed.record;
}
