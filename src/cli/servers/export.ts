import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'smol-toml';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { MASK } from '../../server/records/mask.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { bounded } from '../say.ts';
import { SERVERS_PATH, type SpearCommand } from '../spear/command.ts';

const PRIVATE_FILE = 0o600;
const NORMAL_FILE = 0o644;
/** Fields that the registry adds to a server. */
const registryFields = new Set(['origin', 'nodes', 'updated_at_ms', 'mod_revision']);

/** Writes servers in the format of `apply`, `import` and a registry directory. */
export const exportServers: SpearCommand<{ readonly reveal: boolean }> = async (context) => {
  const { flags, args, client, print, say } = context;
  const [directory] = args;
  const { value } = await client.request('GET', flags.reveal ? '/api/v1/mcp/servers' : SERVERS_PATH);
  const servers = (value as unknown as { servers: readonly JsonObject[] }).servers.map(portable);
  const masked = servers.filter((server) => canonicalJson(server).includes(MASK)).map((server) => server.server_id);
  if (masked.length > 0) {
    const names = bounded(masked.map(String)).join(', ');
    say(
      `secret values of ${names} are written as ${MASK}; a registry without these servers refuses them (see --reveal)`,
    );
  }
  if (directory === undefined) {
    print(`${JSON.stringify({ servers }, null, 2)}\n`);
    return spearExitCodes.ok;
  }
  await mkdir(directory, { recursive: true });
  for (const server of servers) {
    const file = join(directory, `${String(server.server_id)}.toml`);
    await writeFile(file, `${stringify({ version: 1, ...server })}\n`, {
      mode: flags.reveal ? PRIVATE_FILE : NORMAL_FILE,
    });
  }
  say(`${servers.length} servers written to ${directory}`);
  return spearExitCodes.ok;
};

/** Without null fields: TOML has no null. */
function portable(server: JsonObject): JsonObject {
  const entries = Object.entries(server).filter(([name]) => !registryFields.has(name));
  return withoutNull(Object.fromEntries(entries));
}

function withoutNull(value: JsonObject): JsonObject {
  const present = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(
    present.map(([name, field]): [string, JsonValue] => [name, isJsonObject(field) ? withoutNull(field) : field]),
  );
}
