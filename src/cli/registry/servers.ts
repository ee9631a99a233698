import { cutText } from '../../base/cut-text.ts';
import type { McpServerRecord } from '../../server/records/record.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { SERVERS_PATH, type SpearCommand, serverPath } from '../spear/command.ts';
import { age, fieldsText, table } from '../formatting.ts';

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
