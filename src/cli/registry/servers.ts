import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'smol-toml';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { cutText } from '../../base/text.ts';
import { MASK } from '../../server/records/credentials.ts';
import { type McpServerRecord, serverKind } from '../../server/records/server.ts';
import { type ApiRequest, type ApiResponse, RequestError } from '../api-client.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { age, fieldsText, table } from '../formatting.ts';
import { appliedText, contentOf, recordsOf } from '../read-records.ts';
import { bounded, MAX_LISTED } from '../say.ts';
import {
  type JsonFlag,
  PROFILES_PATH,
  SERVERS_PATH,
  type SpearCommand,
  type SpearContext,
  serverPath,
} from '../spear/command.ts';

/** A server in responses of the admin API. */
export interface ShownServer extends McpServerRecord {
  readonly origin: string;
  readonly nodes: readonly ShownReport[];
}

export interface ShownReport {
  readonly node_id: string;
  readonly age_ms: number;
  readonly snapshot_revision: number;
  readonly health: string;
  readonly last_error: string | null;
  readonly tool_count: number | null;
}

const MAX_ERROR_CHARS = 60;
/** From bad to good: the worst health that a node reports is shown first. */
const healthOrder = ['down', 'degraded', 'connected', 'idle'];

export const listServers: SpearCommand = async ({ flags, client, print, say }) => {
  const { value } = await client.request('GET', SERVERS_PATH);
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { servers } = value as unknown as { servers: readonly ShownServer[] };
    if (servers.length === 0) say('no servers; "spear servers apply PATH" adds some');
    const rows = servers.map((server) => {
      const reports = [...server.nodes].sort(byHealth);
      return [
        server.server_id,
        server.transport,
        allowedText(server.allowed_tools),
        healthText(reports),
        toolCountText(reports),
        age(Math.max(0, Date.now() - server.updated_at_ms)),
        server.origin,
        cutText(reports.find((report) => report.last_error !== null)?.last_error ?? '', MAX_ERROR_CHARS),
      ];
    });
    print(table(['ID', 'TRANSPORT', 'ALLOWED', 'HEALTH', 'TOOLS', 'UPDATED', 'FROM', 'LAST ERROR'], rows));
  }
  return spearExitCodes.ok;
};

export const getServer: SpearCommand = async ({ flags, args: [id = ''], client, print }) => {
  const { value } = await client.request('GET', serverPath(id));
  if (flags.json) {
    print(`${JSON.stringify(value)}\n`);
    return spearExitCodes.ok;
  }
  const { nodes, ...record } = value as unknown as ShownServer;
  print(fieldsText(record));
  if (nodes.length > 0) {
    const rows = nodes.map((node) => [
      node.node_id,
      node.health,
      String(node.tool_count ?? '-'),
      String(node.snapshot_revision),
      age(node.age_ms),
      node.last_error ?? '',
    ]);
    print(`\n${table(['NODE', 'HEALTH', 'TOOLS', 'REVISION', 'AGE', 'LAST ERROR'], rows)}`);
  }
  return spearExitCodes.ok;
};

function byHealth(a: ShownReport, b: ShownReport): number {
  return healthOrder.indexOf(a.health) - healthOrder.indexOf(b.health);
}

function allowedText(patterns: readonly string[]): string {
  return patterns.length === 0 ? 'none' : patterns.join(',');
}

/** `down 1/3` if one of three nodes reports it down; `-` if no node has used the server. */
function healthText(reports: readonly ShownReport[]): string {
  const worst = reports[0]?.health;
  if (worst === undefined) return '-';
  return `${worst} ${reports.filter((report) => report.health === worst).length}/${reports.length}`;
}

function toolCountText(reports: readonly ShownReport[]): string {
  const counts = reports.flatMap((report) => report.tool_count ?? []);
  return counts.length === 0 ? '-' : String(Math.max(...counts));
}

export const removeServers = removal(SERVERS_PATH, 'server_id');
export const removeProfiles = removal(PROFILES_PATH, 'name');

/** Removes each; a missing one is reported and does not stop the others. */
function removal(path: string, idField: string): SpearCommand {
  return async ({ flags, args, client, print, say }) => {
    const removed: Record<string, unknown>[] = [];
    let exitCode: number = spearExitCodes.ok;
    for (const id of args) {
      try {
        const { value } = await client.request('DELETE', `${path}/${encodeURIComponent(id)}`);
        removed.push({ [idField]: id, revision: (value as { revision: unknown }).revision });
        if (!flags.json) print(`${id} removed\n`);
      } catch (error) {
        if (!(error instanceof RequestError) || error.exitCode !== spearExitCodes.failed) throw error;
        say(`${id}: ${error.message}`);
        exitCode = error.exitCode;
      }
    }
    if (flags.json) print(`${JSON.stringify({ removed })}\n`);
    return exitCode;
  };
}

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
