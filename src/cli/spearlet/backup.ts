import { existsSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { errorText } from '../../base/errors.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { copyDatabase, openExclusively } from '../../base/sqlite-file.ts';
import { ConfigError } from '../../config/config-error.ts';
import { type NodeFiles, nodeFiles } from '../../config/directories.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { connectLocalSocket } from '../../config/local-socket.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { tokenOfOwnRegistry } from '../../config/registry/registry-endpoint.ts';
import { backupOf } from '../../node/backup/node-backup.ts';
import { restoreNode } from '../../node/backup/node-restore.ts';
import { BACKUP_PATH } from '../../node/http/node-routes.ts';
import type { Call, FlagValues } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { outputOf } from '../say.ts';
import { writeWhole } from '../write-whole.ts';
import { dataDirectory } from './command.ts';
import type { dataFlags } from './flags.ts';

type CopyCall = Call<FlagValues<typeof dataFlags>>;

/** `spearlet backup FILE` */
export const backup = copying(async (files, file) => {
  const served = await askForBackup(files);
  await writeWhole(resolve(file), served ?? ownBackup(files));
  return `backup of ${files.directory} written to ${file}${served === null ? '' : ' by the serving node'}`;
});

/** `spearlet restore FILE` */
export const restore = copying(async (files, file) => {
  const { created_at_ms: at, spear, unfinished, replaced } = await restoreNode(resolve(file), files);
  return [
    `${files.directory} restored from ${file}, which Spear ${spear} wrote at ${new Date(at).toISOString()}`,
    unfinishedText(unfinished),
    `the replaced data is in ${replaced}`,
  ].join('\n');
});

function unfinishedText(runs: number): string {
  if (runs === 0) return 'all runs had ended';
  const which = runs === 1 ? '1 run had not ended: it resumes' : `${runs} runs had not ended: they resume`;
  return `${which}, and calls that are not in the journal have an unknown outcome`;
}

function copying(copy: (files: NodeFiles, file: string) => Promise<string>) {
  return async ({ flags, args: [file = ''], program }: CopyCall): Promise<number> => {
    if (file === '') throw new UsageError('FILE is missing');
    const output = outputOf(program.name);
    try {
      const host = await loadHostConfig({ file: flags.config, env: processEnvironment });
      output.print(`${await copy(nodeFiles(dataDirectory(flags, host.node.data)), file)}\n`);
      return 0;
    } catch (error) {
      if (error instanceof UsageError || error instanceof ConfigError) throw error;
      for (const line of errorText(error).split('\n')) output.say(line);
      return 1;
    }
  };
}

/** Of a node that does not serve. */
async function* ownBackup(files: NodeFiles): AsyncGenerator<Uint8Array> {
  if (!existsSync(files.runs)) {
    throw new Error(`no runs.db in ${files.directory}: it is no data directory of a node, or the runs are in NATS`);
  }
  const [runs, tasks] = [openExclusively(files.runs), openExclusively(files.tasks)];
  try {
    yield* backupOf({
      files,
      runs: { backup: (path) => copyDatabase(runs, path) },
      tasks: { backup: (path) => copyDatabase(tasks, path) },
    });
  } finally {
    runs.close();
    tasks.close();
  }
}

/** Null: no process serves this data. */
async function askForBackup({ socket, adminToken }: NodeFiles): Promise<IncomingMessage | null> {
  if (!existsSync(socket)) return null;
  const token = tokenOfOwnRegistry(adminToken)();
  const response = await new Promise<IncomingMessage | null>((resolveWith, reject) => {
    const asked = request(`http://localhost${BACKUP_PATH}`, {
      method: 'POST',
      createConnection: () => connectLocalSocket(socket),
      headers: token === null ? {} : { authorization: `Bearer ${token.reveal()}` },
    });
    asked.once('response', resolveWith);
    asked.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolveWith(null);
      else reject(new Error(`the node at ${socket} cannot make a backup: ${error.message}`));
    });
    asked.setTimeout(ANSWER_MS, () => asked.destroy(new Error(`no data for ${ANSWER_MS / 1000} s`)));
    asked.end();
  });
  if (response !== null && response.statusCode !== 200) {
    throw new Error(`the node at ${socket} refused the backup: ${refusalText(await text(response))}`);
  }
  return response;
}

/** The detail of a problem (RFC 9457), else the whole body. */
function refusalText(body: string): string {
  const problem = parseJson(body);
  return problem !== undefined && isJsonObject(problem) && typeof problem.detail === 'string'
    ? problem.detail
    : body.trim();
}

/** The node copies its queue before it answers. */
const ANSWER_MS = 10 * 60_000;
