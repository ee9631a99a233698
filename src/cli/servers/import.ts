import { readFile } from 'node:fs/promises';
import { spearExitCodes } from '../exit-codes.ts';
import { oneArgument, SERVERS_PATH, type SpearCommand } from '../spear/command.ts';
import type { SmsAnswer } from '../spear/sms-client.ts';
import { table } from '../table.ts';
import { UsageError } from '../usage-error.ts';

export const IMPORT_PATH = `${SERVERS_PATH}/import`;

/** What a registry says of a file that it is to take, or took. */
export interface ImportAnswer {
  readonly plan: string;
  readonly servers: readonly {
    readonly action: 'create' | 'update' | 'unchanged';
    readonly server_id: string;
    readonly fields: readonly string[];
    /** Only of a plan that was carried out. */
    readonly mod_revision?: number;
  }[];
  readonly warnings: readonly { readonly field: string; readonly detail: string }[];
}

export function importAnswer({ value }: SmsAnswer): ImportAnswer {
  return value as unknown as ImportAnswer;
}

/** Shows the registry's plan for a file, and with --yes lets it carry out exactly that plan. */
export const importServers: SpearCommand = async ({ flags, client, print, say }) => {
  const file = oneArgument(flags, 'FILE');
  const contentType = contentTypeOf(file);
  const body = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read (${error.code})`);
  });
  const dryRun = await client.request('POST', IMPORT_PATH, { body, contentType });
  const plan = importAnswer(dryRun);
  for (const { field, detail } of plan.warnings) say(`warning: ${field} ${detail}`);
  const apply = flags.yes && !flags.dryRun;
  const result = apply
    ? await client.request('POST', `${IMPORT_PATH}?apply=${plan.plan}`, { body, contentType })
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
