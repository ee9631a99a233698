import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fixture as server, startHttp } from '../agent/mcp/client/pool-samples.ts';
import { Canaries } from './canaries.ts';
import { leakyRecords, type Plant, plantVariables } from './canary-places.ts';
import { scratch } from './spear-run.ts';

let made = 0;
export function folder(): string {
  const path = join(scratch, `canary-${++made}`);
  mkdirSync(path);
  return path;
}

export function privateFile(name: string, content: string): string {
  const path = join(folder(), name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

interface Planted {
  readonly canaries: Canaries;
  readonly records: Readonly<Record<string, object>>;
  readonly env: Readonly<Record<string, string>>;
}

/** Records of servers that repeat every secret they get, and the environment that the secrets come from. */
export async function plantRecords(): Promise<Planted> {
  const canaries = new Canaries();
  const plant: Plant = (place, plain) => canaries.plant(place, plain);
  const env = plantVariables(plant);
  const authFile = privateFile('token', `${plant('auth-file', true)}\n`);
  const { url } = await startHttp(server('leaky-http.mjs'), []);
  return { canaries, records: leakyRecords(plant, { url, authFile }), env };
}

export const taskConfig = (servers: readonly string[], env: Record<string, string> = {}) => {
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(servers) };
  return privateFile('task.json', JSON.stringify({ name: 'canary', config, args: ['go'], env }));
};

export function hostConfig(
  canaries: Canaries,
  baseUrl: string,
  more = '',
): { file: string; env: Record<string, string> } {
  const header = canaries.plant('model-header', true);
  const file = privateFile(
    'config.toml',
    `[backends.main]\nkind = "openai"\nbase_url = "${baseUrl}"\nmodel = "m"\napi_key = "env:MODEL_KEY"\n` +
      `max_retries = 0\nheaders = { "X-Gateway-Token" = "${header}" }\n${more}`,
  );
  return { file, env: { MODEL_KEY: canaries.plant('model-key', true) } };
}
