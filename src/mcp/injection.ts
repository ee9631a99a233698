import type { JsonObject, JsonValue } from '../base/json.ts';
import { forcedTool, type InjectedTools, looksLikeMcp } from '../chat/injected-tools.ts';
import { deny, type Exclusion, exclusion } from '../policy/decision.ts';
import type { SessionPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type InventoryTool, renderInventory } from './inventory.ts';
import type { ServerTools } from './session-tools.ts';
import { aliases, allNames, NameTable, toolName } from './tool-names.ts';

export interface NamedTool {
  readonly kind: 'tool';
  readonly record: McpServerRecord;
  readonly tool: string;
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
}

/** A name that may be taken for one of these tools and is none. */
export interface RefusedName {
  readonly kind: 'refused';
  /** Null: it was not injected, and policy has nothing against it. */
  readonly why: Exclusion | null;
}

/** The names of one send: those that were injected, and those that policy kept out. */
export class Injection {
  readonly #injected: NamedTool[] = [];
  readonly #table = new NameTable<NamedTool>();
  /** Everything that may be taken for a tool of these servers and is not the name of one, and why if policy says so. */
  readonly #refused = new Map<string, Exclusion | null>();
  readonly #policy: SessionPolicy;
  /** Made when first asked for: after the last server was added. */
  #shown: Pick<InjectedTools, 'definitions' | 'systemMessage'> | null = null;

  constructor(policy: SessionPolicy) {
    this.#policy = policy;
  }

  /** Names a server's tools. Those whose name is taken are left out: the earlier tool keeps it. */
  add({ record, tools, exclusions }: ServerTools, guestTools: ReadonlySet<string>): Exclusion[] {
    const collisions: Exclusion[] = [];
    for (const { name: tool, description, inputSchema } of tools) {
      const name = toolName(record, tool, this.#policy.toolNaming);
      const named: NamedTool = { kind: 'tool', record, tool, name, description, parameters: inputSchema };
      if (!guestTools.has(name) && this.#table.add(name, aliases(record, tool), named)) {
        this.#injected.push(named);
        this.#refuse(record, tool, null);
      } else {
        const denial = deny('name_collision', 'node', `the name ${name} is taken by an earlier tool`);
        collisions.push(exclusion(record.server_id, tool, denial));
      }
    }
    for (const why of [...exclusions, ...collisions]) if (why.tool !== null) this.#refuse(record, why.tool, why);
    return collisions;
  }

  /** What the model is shown. */
  get shown(): Pick<InjectedTools, 'definitions' | 'systemMessage'> {
    this.#shown ??= { definitions: Object.freeze(this.#injected.map(definition)), systemMessage: this.#inventory() };
    return this.#shown;
  }

  /** What a name of the model stands for; null: nothing of MCP. */
  find(name: string): NamedTool | RefusedName | null {
    const tool = this.#table.get(name);
    if (tool) return tool;
    const why = this.#refused.get(name);
    return why !== undefined || looksLikeMcp(name) ? { kind: 'refused', why: why ?? null } : null;
  }

  /** The choice with a forced tool under the name it was injected with; null if that tool is not there. */
  toolChoice(choice: JsonValue): JsonValue | null {
    const found = this.find(forcedTool(choice) ?? '');
    if (found === null) return choice;
    if (found.kind === 'refused') return null;
    const forced = choice as { function: JsonObject };
    return { ...forced, function: { ...forced.function, name: found.name } };
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
    return renderInventory(wanted, tools);
  }
}

const definition = ({ name, description, parameters }: NamedTool): JsonObject => ({
  type: 'function',
  function: { name, description, parameters },
});
