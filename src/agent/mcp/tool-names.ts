import { createHash } from 'node:crypto';
import type { ToolNaming } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/record.ts';
import type { NameClaims } from './name-claims.ts';

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
