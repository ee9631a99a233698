import { type McpProfile, profileKind } from '../../server/records/profile.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { age, fieldsText, table } from '../formatting.ts';
import { appliedText, contentOf, recordsOf } from '../read-records.ts';
import { PROFILES_PATH, type SpearCommand } from '../spear/command.ts';

/** A profile in responses of the admin API. */
interface ShownProfile extends McpProfile {
  readonly origin: string;
}

export const listProfiles: SpearCommand = async ({ flags, client, print, say }) => {
  const { value } = await client.request('GET', PROFILES_PATH);
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { profiles } = value as unknown as { profiles: readonly ShownProfile[] };
    if (profiles.length === 0) say('no profiles');
    const rows = profiles.map((profile) => [
      profile.name,
      profile.server_ids.join(',') || '-',
      profile.server_tags.join(',') || '-',
      profile.tool_allowlist === null ? '*' : profile.tool_allowlist.join(',') || 'none',
      profile.tool_denylist.join(',') || '-',
      age(Math.max(0, Date.now() - profile.updated_at_ms)),
      profile.origin,
      profile.description,
    ]);
    print(table(['NAME', 'SERVERS', 'TAGS', 'ALLOWED', 'DENIED', 'UPDATED', 'FROM', 'DESCRIPTION'], rows));
  }
  return spearExitCodes.ok;
};

export const getProfile: SpearCommand = async ({ flags, args: [name = ''], client, print }) => {
  const { value } = await client.request('GET', `${PROFILES_PATH}/${encodeURIComponent(name)}`);
  print(flags.json ? `${JSON.stringify(value)}\n` : fieldsText(value as object));
  return spearExitCodes.ok;
};

/** Creates or replaces profiles from files, one after the other. Nothing is sent unless every file is valid. */
export const applyProfiles: SpearCommand = async (context) => {
  const { flags, client, print } = context;
  const profiles = await recordsOf(profileKind, context);
  if (profiles === null) return spearExitCodes.failed;
  const applied: { name: string; outcome: string; mod_revision: unknown }[] = [];
  for (const profile of profiles) {
    const { name } = profile;
    const { status, value } = await client.request('PUT', `${PROFILES_PATH}/${encodeURIComponent(name)}`, {
      body: JSON.stringify(contentOf(profile)),
      contentType: 'application/json',
    });
    const { changed, mod_revision } = value as { changed: boolean; mod_revision: number };
    const outcome = status === 201 ? 'created' : changed ? 'updated' : 'unchanged';
    applied.push({ name, outcome, mod_revision });
  }
  if (flags.json) print(`${JSON.stringify({ profiles: applied })}\n`);
  else
    print(
      appliedText(
        'profile',
        applied.map(({ name, outcome }) => [name, outcome]),
      ),
    );
  return spearExitCodes.ok;
};
