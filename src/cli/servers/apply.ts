import type { McpServerRecord } from '../../server/records/record.ts';
import { serverKind } from '../../server/records/server-kind.ts';
import { type ApiRequest, RequestError } from '../api-client.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { appliedText, contentOf, recordsOf } from '../read-records.ts';
import type { SpearCommand, SpearContext } from '../spear/command.ts';
import { IMPORT_PATH, type ImportAnswer, importAnswer } from './import.ts';

const MAX_TRIES = 5;
const outcomes = { create: 'created', update: 'updated', unchanged: 'unchanged' } as const;

/** Creates or replaces servers from files, all or none. Nothing is sent unless every file is valid. */
export const applyServers: SpearCommand = async (context) => {
  const records = await recordsOf(serverKind, context);
  if (records === null) return spearExitCodes.failed;
  return records.length === 0 ? spearExitCodes.ok : send(context, records);
};

async function send({ flags, client, print }: SpearContext, records: readonly McpServerRecord[]): Promise<number> {
  const body = JSON.stringify({ servers: records.map(contentOf) });
  const { servers } = await planAndApply(client, { body, contentType: 'application/json' });
  const applied = servers.map(({ action, server_id, mod_revision }) => ({
    server_id,
    outcome: outcomes[action],
    mod_revision,
  }));
  if (flags.json) print(`${JSON.stringify({ servers: applied })}\n`);
  else
    print(
      appliedText(
        'server',
        applied.map(({ server_id, outcome }) => [server_id, outcome]),
      ),
    );
  return spearExitCodes.ok;
}

/** Plans again if the registry changed between plan and apply. */
async function planAndApply(client: SpearContext['client'], request: ApiRequest): Promise<ImportAnswer> {
  for (let tries = 1; ; tries++) {
    const { plan } = importAnswer(await client.request('POST', IMPORT_PATH, request));
    try {
      return importAnswer(await client.request('POST', `${IMPORT_PATH}?apply=${plan}`, request));
    } catch (error) {
      const overtaken = error instanceof RequestError && error.status === 412;
      if (!overtaken || tries >= MAX_TRIES) throw error;
    }
  }
}
