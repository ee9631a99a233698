import { createHash } from 'node:crypto';
import type { TaskPolicy, ToolNaming } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { RegistryView } from '../policy/registry-view.ts';
import { aboutSelection, denialOf } from '../policy/walk.ts';

/** The longest name that providers take, and its alphabet. */
const MAX_NAME = 64;
const providerName = /^[A-Za-z0-9_-]{1,64}$/;

const PREFIX = 'mcp__';
const base64url = (data: string) => Buffer.from(data).toString('base64url');

/** `mcp__<server>__<tool>` in base64url, however long. */
export function fullName(serverId: string, tool: string): string {
  return `${PREFIX}${base64url(serverId)}__${base64url(tool)}`;
}

/** The full name; too long for a provider: a hash, the same on every run. */
export function encodedName(serverId: string, tool: string): string {
  const name = fullName(serverId, tool);
  if (name.length <= MAX_NAME) return name;
  return PREFIX + createHash('sha256').update(`${serverId}\0${tool}`).digest('base64url');
}

/** Whether a name stands for a tool by its hash alone. */
export function isHashed(serverId: string, tool: string, name: string): boolean {
  return name === encodedName(serverId, tool) && name !== fullName(serverId, tool);
}

/** The name that the model sees. It is looked up in a table when it comes back, never taken apart. */
export function toolName(
  record: Pick<McpServerRecord, 'server_id' | 'tool_prefix'>,
  tool: string,
  naming: ToolNaming,
  claims: NameClaims,
): string {
  const readable = `${record.tool_prefix}_${tool}`;
  return naming === 'readable' && providerName.test(readable) && claims.isUnambiguous(readable, record.server_id)
    ? readable
    : encodedName(record.server_id, tool);
}

/** Dotted names that older prompts use for the same tool. */
export function aliases(
  record: Pick<McpServerRecord, 'server_id' | 'tool_namespace'>,
  tool: string,
  claims: NameClaims,
): string[] {
  const dotted = dottedNames(record, tool);
  return dotted.filter((name) => claims.isUnambiguous(name, record.server_id));
}

function dottedNames(record: Pick<McpServerRecord, 'server_id' | 'tool_namespace'>, tool: string): string[] {
  return [...new Set([`mcp.${record.server_id}.${tool}`, `${record.tool_namespace}.${tool}`])];
}

/** Every form under which a model may know a tool, whichever of them was injected. */
export function allNames(
  record: Pick<McpServerRecord, 'server_id' | 'tool_prefix' | 'tool_namespace'>,
  tool: string,
): string[] {
  return [encodedName(record.server_id, tool), `${record.tool_prefix}_${tool}`, ...dottedNames(record, tool)];
}

/** The names of one send: whatever is not in here was not injected. */
export class NameTable<Tool> {
  readonly #tools = new Map<string, Tool>();
  /** null: two tools of a server have this alias, so it names neither. */
  readonly #aliases = new Map<string, Tool | null>();

  /** False if the name is taken; the earlier tool keeps it. */
  add(name: string, dotted: readonly string[], tool: Tool): boolean {
    if (this.#tools.has(name)) return false;
    this.#tools.set(name, tool);
    for (const alias of dotted) this.#aliases.set(alias, this.#aliases.has(alias) ? null : tool);
    return true;
  }

  get(name: string): Tool | undefined {
    return this.#tools.get(name) ?? this.#aliases.get(name) ?? undefined;
  }
}

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
