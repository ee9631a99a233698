import { profileKind } from '../../server/records/profile-kind.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { appliedText, contentOf, recordsOf } from '../read-records.ts';
import { PROFILES_PATH, type SpearCommand } from '../spear/command.ts';

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
