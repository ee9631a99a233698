import type { JsonObject, JsonValue } from '../base/json.ts';
import { forcedTool, type InjectedTools, looksLikeMcp, type ModelToolCall } from '../chat/injected-tools.ts';
import { deny, type Exclusion, exclusion } from '../policy/decision.ts';
import type { SessionPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type InventoryTool, renderInventory } from './inventory.ts';
import type { ServerTools } from './session-tools.ts';
import { aliases, allNames, NameTable, toolName } from './tool-names.ts';

export interface NamedTool {
  readonly record: McpServerRecord;
  readonly tool: string;
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
}

/** What becomes of a call of the model: a tool to run, or why there is none under that name. */
export interface InjectionPorts {
  readonly run: (call: ModelToolCall, tool: NamedTool, signal: AbortSignal) => Promise<string>;
  readonly refuse: (call: ModelToolCall, why: Exclusion | null) => string;
}

/** The names of one send: those that were injected, and those that policy kept out. */
export class Injection {
  readonly #injected: NamedTool[] = [];
  readonly #table = new NameTable<NamedTool>();
  /** Everything that may be taken for a tool of these servers and is not the name of one, and why if policy says so. */
  readonly #refused = new Map<string, Exclusion | null>();
  readonly #policy: SessionPolicy;
  /** Made when first asked for: after the last server was added. */
  #made: Pick<InjectedTools, 'definitions' | 'systemMessage'> | null = null;

  constructor(policy: SessionPolicy) {
    this.#policy = policy;
  }

  /** Names a server's tools. Those whose name is taken are left out: the earlier tool keeps it. */
  add({ record, tools, exclusions }: ServerTools, guestTools: ReadonlySet<string>): Exclusion[] {
    const collisions: Exclusion[] = [];
    for (const { name: tool, description, inputSchema } of tools) {
      const name = toolName(record, tool, this.#policy.toolNaming);
      const named = { record, tool, name, description, parameters: inputSchema };
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

  tools(ports: InjectionPorts): InjectedTools {
    const table = this.#table;
    this.#made ??= { definitions: Object.freeze(this.#injected.map(definition)), systemMessage: this.#inventory() };
    return {
      ...this.#made,
      owns: (name) => table.get(name) !== undefined || this.#refused.has(name) || looksLikeMcp(name),
      toolChoice: (choice) => this.#choose(choice),
      run: async (call, signal) => {
        const tool = table.get(call.name);
        return tool ? ports.run(call, tool, signal) : ports.refuse(call, this.#refused.get(call.name) ?? null);
      },
    };
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

  #choose(choice: JsonValue): JsonValue | null {
    const name = forcedTool(choice);
    if (name === null) return choice;
    const tool = this.#table.get(name);
    if (!tool) return looksLikeMcp(name) || this.#refused.has(name) ? null : choice;
    const forced = choice as { function: JsonObject };
    return { ...forced, function: { ...forced.function, name: tool.name } };
  }
}

const definition = ({ name, description, parameters }: NamedTool): JsonObject => ({
  type: 'function',
  function: { name, description, parameters },
});
