import type { TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/record.ts';
import type { RegistryView } from '../policy/registry-view.ts';
import { aboutSelection, denialOf } from '../policy/walk.ts';

type NamedServer = Pick<McpServerRecord, 'server_id' | 'tool_prefix' | 'tool_namespace'>;

/** Of the encoded names: no other name begins like one. */
const RESERVED = 'mcp__';

/** What names of a server's tools begin with, all but the encoded ones. */
const beginnings = ({ server_id: id, tool_prefix: prefix, tool_namespace: namespace }: NamedServer): string[] => [
  `${prefix}_`,
  `mcp.${id}.`,
  `${namespace}.`,
];

/**
 * Which names can mean a tool of one server only. `git_hub_x` may be `hub_x` of a server `git` or `x` of `git_hub`: with
 * both there it means neither. Only records decide: if the lists of the servers did, one could take a name from another
 * by listing a tool, or while the other cannot be reached.
 */
export class NameClaims {
  /** By the beginning of a name; null: more than one server has it. */
  readonly #servers = new Map<string, string | null>([[RESERVED, null]]);

  constructor(records: Iterable<NamedServer>) {
    for (const record of records) {
      for (const beginning of beginnings(record)) {
        const other = this.#servers.get(beginning);
        this.#servers.set(beginning, other === undefined || other === record.server_id ? record.server_id : null);
      }
    }
  }

  /** Whether a name cannot be read as that of another server's tool. */
  isUnambiguous(name: string, serverId: string): boolean {
    for (let at = 0; at < name.length; at++) {
      if (name[at] !== '_' && name[at] !== '.') continue;
      const server = this.#servers.get(name.slice(0, at + 1));
      if (server !== undefined && server !== serverId) return false;
    }
    return true;
  }
}

/** The servers that share the names of a task: all it may ever have, so that a session's choice gives no name to another. */
export function namedServers(view: RegistryView | null, task: TaskPolicy): McpServerRecord[] {
  const { allowedServerIds: allowed } = task;
  if (view === null) return [];
  if (allowed !== null) return allowed.flatMap((id) => view.servers.get(id) ?? []);
  return [...view.servers.values()].filter((record) => denialOf(aboutSelection(view, task, record)) === null);
}
