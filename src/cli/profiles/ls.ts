import type { McpProfile } from '../../protocol/profile.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { noArguments, oneArgument, PROFILES_PATH, type SpearCommand } from '../spear/command.ts';
import { age, printable, table } from '../table.ts';

/** What the admin API says of a profile. */
interface ShownProfile extends McpProfile {
  readonly origin: string;
}

export const listProfiles: SpearCommand = async ({ flags, client, print }) => {
  noArguments(flags);
  const { value } = await client.request('GET', PROFILES_PATH);
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { profiles } = value as unknown as { profiles: readonly ShownProfile[] };
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

export const getProfile: SpearCommand = async ({ flags, client, print }) => {
  const name = oneArgument(flags, 'NAME');
  const { value } = await client.request('GET', `${PROFILES_PATH}/${encodeURIComponent(name)}`);
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    for (const [field, content] of Object.entries(value as object)) {
      if (content === null) continue;
      print(`${field}: ${printable(typeof content === 'string' ? content : JSON.stringify(content))}\n`);
    }
  }
  return spearExitCodes.ok;
};
