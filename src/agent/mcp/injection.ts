import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { SessionPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { forcedTool, type InjectedTools, looksLikeMcp } from '../chat/injected-tools.ts';
import { deny, type Exclusion, exclusion } from '../policy/decision.ts';
import { LIST_RESOURCES_TOOL, READ_RESOURCE_TOOL, ResourceTools } from './resource-tools.ts';
import { CALL_TOOL, SEARCH_TOOL, ToolSearch } from './search/tool-search.ts';
import type { ServerTools } from './session-tools.ts';
import { aliases, allNames, type NameClaims, NameTable, toolName } from './tool-names.ts';

export interface NamedTool {
  readonly kind: 'tool';
  readonly record: McpServerRecord;
  readonly tool: string;
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
  /** Hints of the server about the tool. */
  readonly annotations: JsonObject | null;
}

/** One of the two tools that replace all others when tool search is on. */
export type SearchName = { readonly kind: 'search'; readonly search: ToolSearch } | { readonly kind: 'through' };

/** One of the two tools that list and read resources. */
export interface ResourceName {
  readonly kind: 'list_resources' | 'read_resource';
  readonly tools: ResourceTools;
}

/** A name that resembles an injected tool and is none. */
export interface RefusedName {
  readonly kind: 'refused';
  /** Null: not injected, and not denied by policy. */
  readonly why: Exclusion | null;
}

/** The request part for the model, and the tools behind names that belong to no server. */
interface ModelView extends Pick<InjectedTools, 'definitions' | 'systemMessage'> {
  readonly search: ToolSearch | null;
  readonly resources: ResourceTools | null;
}

/** Tool names of one send: the injected ones, and those that policy excluded. */
export class Injection {
  readonly #injected: NamedTool[] = [];
  readonly #table = new NameTable<NamedTool>();
  /** Names that resemble a tool of these servers without being injected, with the reason if policy excluded them. */
  readonly #refused = new Map<string, Exclusion | null>();
  /** Instructions by server. */
  readonly #instructions = new Map<string, string>();
  readonly #policy: SessionPolicy;
  readonly #claims: NameClaims;
  /** Created on first use, after the last server was added. */
  #shown: ModelView | null = null;
  #searchIsTaken = false;
  readonly #readable: McpServerRecord[] = [];
  #readingIsTaken = false;

  constructor(policy: SessionPolicy, claims: NameClaims) {
    this.#policy = policy;
    this.#claims = claims;
  }

  /** Adds a server's tools. A tool whose name is taken is left out and returned as an exclusion. */
  add({ record, tools, exclusions, instructions }: ServerTools, guestTools: ReadonlySet<string>): Exclusion[] {
    if (instructions !== null) this.#instructions.set(record.server_id, instructions);
    const collisions: Exclusion[] = [];
    this.#searchIsTaken ||= guestTools.has(SEARCH_TOOL) || guestTools.has(CALL_TOOL);
    this.#readingIsTaken ||= guestTools.has(LIST_RESOURCES_TOOL) || guestTools.has(READ_RESOURCE_TOOL);
    if (record.allowed_resources.length > 0) this.#readable.push(record);
    for (const { name: tool, description, inputSchema, annotations } of tools) {
      const name = toolName(record, tool, this.#policy.toolNaming, this.#claims);
      const named: NamedTool = { kind: 'tool', record, tool, name, description, parameters: inputSchema, annotations };
      if (!guestTools.has(name) && this.#table.add(name, aliases(record, tool, this.#claims), named)) {
        this.#injected.push(named);
        this.#refuse(record, tool, null);
      } else {
        const denial = deny('name_collision', 'node', `the name ${name} is already used by an earlier tool`);
        collisions.push(exclusion(record.server_id, tool, denial));
      }
    }
    for (const why of [...exclusions, ...collisions]) if (why.tool !== null) this.#refuse(record, why.tool, why);
    return collisions;
  }

  /** The tools that can be called. */
  get tools(): readonly NamedTool[] {
    return this.#injected;
  }

  /** The request part for the model. */
  get shown(): ModelView {
    if (this.#shown === null) {
      const search = this.#isSearched() ? new ToolSearch(this.#injected) : null;
      const tools = search?.definitions ?? this.#injected.map(definition);
      const reads = this.#policy.resourceTools && !this.#readingIsTaken && this.#readable.length > 0;
      const resources = reads ? new ResourceTools(this.#readable) : null;
      const definitions = Object.freeze([...tools, ...(resources?.definitions ?? [])]);
      this.#shown = { definitions, systemMessage: this.#inventory(), search, resources };
    }
    return this.#shown;
  }

  /** Resolves a name of the model; null: no MCP name. */
  find(name: string): NamedTool | SearchName | ResourceName | RefusedName | null {
    if (name === SEARCH_TOOL || name === CALL_TOOL) {
      const { search } = this.shown;
      if (search !== null) return name === SEARCH_TOOL ? { kind: 'search', search } : { kind: 'through' };
    }
    if (name === LIST_RESOURCES_TOOL || name === READ_RESOURCE_TOOL) {
      const { resources: tools } = this.shown;
      if (tools !== null) return { kind: name === LIST_RESOURCES_TOOL ? 'list_resources' : 'read_resource', tools };
    }
    const tool = this.#table.get(name);
    if (tool) return tool;
    const why = this.#refused.get(name);
    return why !== undefined || looksLikeMcp(name) ? { kind: 'refused', why: why ?? null } : null;
  }

  /** The tool choice with the injected name of a forced tool; null: that tool is not injected. */
  toolChoice(choice: JsonValue): JsonValue | null {
    const found = this.find(forcedTool(choice) ?? '');
    if (found === null) return choice;
    if (found.kind !== 'tool' && found.kind !== 'refused') return choice;
    // With tool search the tool has no definition in the request, and providers accept no other choice.
    if (found.kind === 'refused' || this.shown.search !== null) return null;
    const forced = choice as { function: JsonObject };
    return { ...forced, function: { ...forced.function, name: found.name } };
  }

  #isSearched(): boolean {
    const { mode, above } = this.#policy.toolSearch;
    if (this.#searchIsTaken || this.#injected.length === 0) return false;
    return mode === 'on' || (mode === 'auto' && this.#injected.length > above);
  }

  #refuse(record: McpServerRecord, tool: string, why: Exclusion | null): void {
    for (const name of allNames(record, tool)) {
      if (why !== null || !this.#refused.has(name)) this.#refused.set(name, why);
    }
  }

  #inventory(): string | null {
    const wanted = this.#policy.inventory;
    if (wanted === false || (wanted === true && this.#injected.length === 0)) return null;
    const tools = this.#injected.map(
      ({ record, name, description }): InventoryTool => ({
        serverId: record.server_id,
        serverName: record.display_name,
        name,
        description,
      }),
    );
    return renderInventory(wanted, tools, this.#instructions);
  }
}

const definition = ({ name, description, parameters }: NamedTool): JsonObject => ({
  type: 'function',
  function: { name, description, parameters },
});

/** What was made for a send, and from what. */
interface CachedInjection {
  readonly policy: SessionPolicy;
  readonly listings: readonly ServerTools[];
  readonly guestTools: ReadonlySet<string>;
  readonly claims: NameClaims;
  readonly injection: Injection;
  /** Tools whose name was taken, by the place of their server. */
  readonly collisions: readonly (readonly Exclusion[])[];
}

/** Injections cached per guest; the least recently used one is evicted. */
const MAX_CACHED = 8;

/** Cache of injections: an unchanged session gets the injection of its last send. */
export class InjectionCache {
  readonly #cached: CachedInjection[] = [];

  find(
    policy: SessionPolicy,
    listings: readonly ServerTools[],
    guestTools: ReadonlySet<string>,
    claims: NameClaims,
  ): Pick<CachedInjection, 'injection' | 'collisions'> {
    const at = this.#cached.findIndex((kept) => kept.claims === claims && isSame(kept, policy, listings, guestTools));
    const [found = make(policy, listings, guestTools, claims)] = at < 0 ? [] : this.#cached.splice(at, 1);
    this.#cached.unshift(found);
    if (this.#cached.length > MAX_CACHED) this.#cached.pop();
    return found;
  }
}

function make(
  policy: SessionPolicy,
  listings: readonly ServerTools[],
  guestTools: ReadonlySet<string>,
  claims: NameClaims,
): CachedInjection {
  const injection = new Injection(policy, claims);
  const collisions = listings.map((listing) => injection.add(listing, guestTools));
  return { policy, listings, guestTools: new Set(guestTools), claims, injection, collisions };
}

/** Filtered lists are the same objects while neither the server nor the policy changed. */
function isSame(
  kept: CachedInjection,
  policy: SessionPolicy,
  listings: readonly ServerTools[],
  guestTools: ReadonlySet<string>,
): boolean {
  return (
    kept.policy.toolNaming === policy.toolNaming &&
    kept.policy.inventory === policy.inventory &&
    kept.policy.resourceTools === policy.resourceTools &&
    kept.listings.length === listings.length &&
    listings.every((listing, at) => isSameListing(listing, kept.listings[at] as ServerTools)) &&
    kept.guestTools.size === guestTools.size &&
    kept.guestTools.isSubsetOf(guestTools)
  );
}

const isSameListing = (one: ServerTools, other: ServerTools): boolean =>
  one.record === other.record &&
  one.tools === other.tools &&
  one.exclusions === other.exclusions &&
  one.instructions === other.instructions;

const MAX_DESCRIPTION = 200;
const MAX_INSTRUCTIONS = 500;

export interface InventoryTool {
  readonly serverId: string;
  readonly serverName: string;
  readonly name: string;
  readonly description: string;
}

/**
 * The system message that lists the available tools. Descriptions and instructions come from the servers: they are cut and
 * put on one line, so that they cannot imitate parts of the prompt, and instructions are marked as untrusted.
 */
export function renderInventory(
  template: true | string,
  tools: readonly InventoryTool[],
  instructions: ReadonlyMap<string, string>,
): string {
  const listed = byServer(tools, instructions);
  if (template === true) return `The following external tools are available via MCP:\n\n${listed}`;
  const values: Record<string, string> = {
    server_names: [...new Set(tools.map(({ serverName }) => plain(serverName)))].join(', '),
    tool_count: String(tools.length),
    tools_by_server: listed,
  };
  // Unknown placeholders were rejected when the parameter was set.
  return template.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}

function byServer(tools: readonly InventoryTool[], instructions: ReadonlyMap<string, string>): string {
  const servers = Map.groupBy(tools, ({ serverId }) => serverId);
  const parts = [...servers].map(([serverId, own]) => {
    const said = plain(instructions.get(serverId) ?? '', MAX_INSTRUCTIONS);
    const about =
      said === '' ? [] : [`(untrusted: what this server says about itself: "${said.replaceAll('"', "'")}")`, ''];
    const lines = own.map(({ name, description }) => {
      const text = plain(description);
      return `- \`${name}\`${text && ` - ${text}`}`;
    });
    return [`### ${plain(own[0]?.serverName ?? '')}`, '', ...about, ...lines].join('\n');
  });
  return parts.join('\n\n');
}

function plain(text: string, maxCharacters = MAX_DESCRIPTION): string {
  const line = text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .replaceAll('`', "'")
    .trim();
  // Counts characters, not UTF-16 units, including the ellipsis.
  const characters = [...line];
  return characters.length > maxCharacters ? `${characters.slice(0, maxCharacters - 1).join('')}…` : line;
}
