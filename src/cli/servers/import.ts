import { readFile } from 'node:fs/promises';
import { spearExitCodes } from '../exit-codes.ts';
import { oneArgument, SERVERS_PATH, type SpearCommand } from '../spear/command.ts';
import { table } from '../table.ts';
import { UsageError } from '../usage-error.ts';

interface ShownPlan {
  readonly plan: string;
  readonly servers: readonly {
    readonly action: string;
    readonly server_id: string;
    readonly fields: readonly string[];
  }[];
  readonly warnings: readonly { readonly field: string; readonly detail: string }[];
}

/** Shows the registry's plan for a file, and with --yes lets it carry out exactly that plan. */
export const importServers: SpearCommand = async ({ flags, client, print, say }) => {
  const file = oneArgument(flags, 'FILE');
  const contentType = contentTypeOf(file);
  const body = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read (${error.code})`);
  });
  const dryRun = await client.request('POST', `${SERVERS_PATH}/import`, { body, contentType });
  const plan = dryRun.value as unknown as ShownPlan;
  for (const { field, detail } of plan.warnings) say(`warning: ${field} ${detail}`);
  const apply = flags.yes && !flags.dryRun;
  const result = apply
    ? await client.request('POST', `${SERVERS_PATH}/import?apply=${plan.plan}`, { body, contentType })
    : dryRun;
  if (flags.json) print(`${JSON.stringify(result.value)}\n`);
  else {
    const rows = plan.servers.map(({ action, server_id, fields }) => [action, server_id, fields.join(', ')]);
    print(table(['ACTION', 'ID', 'FIELDS'], rows));
    if (!apply) say('nothing was changed; add --yes to do it');
  }
  return spearExitCodes.ok;
};

function contentTypeOf(file: string): string {
  if (file.endsWith('.json')) return 'application/json';
  if (file.endsWith('.toml')) return 'application/toml';
  throw new UsageError(`${file}: expected .json or .toml`);
}
