import { readFile } from 'node:fs/promises';
import type { ApiResponse } from '../api-client.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { bounded, MAX_LISTED } from '../say.ts';
import { type JsonFlag, SERVERS_PATH, type SpearCommand } from '../spear/command.ts';
import { table } from '../table.ts';
import { UsageError } from '../usage-error.ts';

interface ImportFlags extends JsonFlag {
  readonly yes: boolean;
  readonly dryRun: boolean;
}

export const IMPORT_PATH = `${SERVERS_PATH}/import`;

/** Response of the registry to an import: the plan, or the applied plan. */
export interface ImportAnswer {
  readonly plan: string;
  readonly servers: readonly {
    readonly action: 'create' | 'update' | 'unchanged';
    readonly server_id: string;
    readonly fields: readonly string[];
    /** Set when the plan was applied. */
    readonly mod_revision?: number;
  }[];
  readonly warnings: readonly { readonly field: string; readonly detail: string }[];
}

export function importAnswer({ value }: ApiResponse): ImportAnswer {
  return value as unknown as ImportAnswer;
}

/** Shows the registry's plan for a file; --yes applies exactly that plan. */
export const importServers: SpearCommand<ImportFlags> = async ({ flags, args, client, print, say }) => {
  const [file = ''] = args;
  const contentType = contentTypeOf(file);
  const body = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file}: cannot be read (${error.code})`);
  });
  const dryRun = await client.request('POST', IMPORT_PATH, { body, contentType });
  const plan = importAnswer(dryRun);
  for (const line of bounded(plan.warnings.map(({ field, detail }) => `warning: ${field} ${detail}`))) say(line);
  const apply = flags.yes && !flags.dryRun;
  const result = apply
    ? await client.request('POST', `${IMPORT_PATH}?apply=${plan.plan}`, { body, contentType })
    : dryRun;
  if (flags.json) print(`${JSON.stringify(result.value)}\n`);
  else {
    print(planText(plan));
    if (!apply) say('nothing was changed; --yes applies this plan');
  }
  return spearExitCodes.ok;
};

/** Small plans in full, large ones as counts. */
function planText({ servers }: ImportAnswer): string {
  if (servers.length <= MAX_LISTED) {
    const rows = servers.map(({ action, server_id, fields }) => [action, server_id, fields.join(', ')]);
    return table(['ACTION', 'ID', 'FIELDS'], rows);
  }
  const count = (action: string) => `${servers.filter((server) => server.action === action).length} ${action}`;
  return `${servers.length} servers: ${['create', 'update', 'unchanged'].map(count).join(', ')}\n`;
}

function contentTypeOf(file: string): string {
  if (file.endsWith('.json')) return 'application/json';
  if (file.endsWith('.toml')) return 'application/toml';
  throw new UsageError(`${file}: expected .json or .toml`);
}
