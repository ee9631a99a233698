import { createHash } from 'node:crypto';
import type { TaskPolicy, ToolNaming } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { RegistryView } from '../policy/decision.ts';
import { aboutSelection, denialOf } from '../policy/walk.ts';

/** Limits of providers for tool names. */
const MAX_NAME = 64;
const providerName = /^[A-Za-z0-9_-]{1,64}$/;

const PREFIX = 'mcp__';
const base64url = (data: string) => Buffer.from(data).toString('base64url');

/** `mcp__<server>__<tool>` in base64url, of any length. */
export function fullName(serverId: string, tool: string): string {
  return `${PREFIX}${base64url(serverId)}__${base64url(tool)}`;
}

/** The full name, or a stable hash if providers would reject its length. */
export function encodedName(serverId: string, tool: string): string {
  const name = fullName(serverId, tool);
  if (name.length <= MAX_NAME) return name;
  return PREFIX + createHash('sha256').update(`${serverId}\0${tool}`).digest('base64url');
}

/** Whether the name is the hash of a tool. */
export function isHashed(serverId: string, tool: string, name: string): boolean {
  return name === encodedName(serverId, tool) && name !== fullName(serverId, tool);
}

/** The name that the model sees. It is resolved by a table, never parsed. */
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

/** Dotted names of the same tool in older prompts. */
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

/** Every name form of a tool that a model may know. */
export function allNames(
  record: Pick<McpServerRecord, 'server_id' | 'tool_prefix' | 'tool_namespace'>,
  tool: string,
): string[] {
  return [encodedName(record.server_id, tool), `${record.tool_prefix}_${tool}`, ...dottedNames(record, tool)];
}

/** The injected names of one send. */
export class NameTable<Tool> {
  readonly #tools = new Map<string, Tool>();
  /** Null: ambiguous, two tools of a server have this alias. */
  readonly #aliases = new Map<string, Tool | null>();

  /** False: an earlier tool has the name. */
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

/** Prefix of encoded names; no other name starts with it. */
const RESERVED = 'mcp__';

/** Prefixes of a server's tool names, except the encoded ones. */
const beginnings = ({ server_id: id, tool_prefix: prefix, tool_namespace: namespace }: NamedServer): string[] => [
  `${prefix}_`,
  `mcp.${id}.`,
  `${namespace}.`,
];

/**
 * Decides which names are unambiguous. `git_hub_x` may be `hub_x` of the server `git` or `x` of `git_hub`: with both
 * servers it means neither. Only records decide: if tool lists did, a server could capture the name of another one by
 * listing a tool, or while the other one is unreachable.
 */
export class NameClaims {
  /** Server by name prefix; null: several servers have it. */
  readonly #servers = new Map<string, string | null>([[RESERVED, null]]);

  constructor(records: Iterable<NamedServer>) {
    for (const record of records) {
      for (const beginning of beginnings(record)) {
        const other = this.#servers.get(beginning);
        this.#servers.set(beginning, other === undefined || other === record.server_id ? record.server_id : null);
      }
    }
  }

  /** Whether the name cannot mean a tool of another server. */
  isUnambiguous(name: string, serverId: string): boolean {
    for (let at = 0; at < name.length; at++) {
      if (name[at] !== '_' && name[at] !== '.') continue;
      const server = this.#servers.get(name.slice(0, at + 1));
      if (server !== undefined && server !== serverId) return false;
    }
    return true;
  }
}

/** All servers that the task may use: names must not depend on the choice of a session. */
export function namedServers(view: RegistryView | null, task: TaskPolicy): McpServerRecord[] {
  const { allowedServerIds: allowed } = task;
  if (view === null) return [];
  if (allowed !== null) return allowed.flatMap((id) => view.servers.get(id) ?? []);
  return [...view.servers.values()].filter((record) => denialOf(aboutSelection(view, task, record)) === null);
}
