import { canonicalJson, isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';
import { type SearchableTool, ToolIndex } from './tool-index.ts';

/** What the model gets in the place of all definitions. No tool of a server can have these names encoded. */
export const SEARCH_TOOL = 'mcp__search_tools';
export const CALL_TOOL = 'mcp__call_tool';

const DEFAULT_RESULTS = 5;
const MAX_RESULTS = 10;
/** Servers that the description of the search names; the rest is a number. */
const MAX_NAMED_SERVERS = 20;

/** A tool with the name that the model calls it by. */
export interface NamedSearchableTool extends SearchableTool {
  readonly name: string;
}

/** A call through {@link CALL_TOOL}: which tool, with which arguments as JSON. */
export interface ThroughCall {
  readonly name: string;
  readonly arguments: string;
}

/** The tools of one send behind a search: those that policy lets the session call, and no others. */
export class ToolSearch {
  readonly definitions: readonly JsonObject[];
  readonly #tools: readonly NamedSearchableTool[];
  #index: ToolIndex<NamedSearchableTool> | null = null;

  constructor(tools: readonly NamedSearchableTool[]) {
    this.#tools = tools;
    this.definitions = Object.freeze([searchDefinition(tools), callDefinition]);
  }

  /** The answer to a search, at most `maxBytes` long; null for arguments that are none. */
  search(argumentsJson: string, maxBytes: number): string | null {
    const args = argumentsJson.trim() === '' ? {} : parseJson(argumentsJson);
    if (!isJsonObject(args) || typeof args.query !== 'string') return null;
    const limit = Math.min(MAX_RESULTS, Math.max(1, Math.trunc(Number(args.limit ?? DEFAULT_RESULTS)) || 1));
    this.#index ??= new ToolIndex(this.#tools);
    const found = this.#index.search(args.query, limit);
    for (let shown = found.length; ; shown--) {
      const json = canonicalJson({ tools: found.slice(0, shown).map(shownTool), total: this.#tools.length });
      if (shown === 0 || Buffer.byteLength(json) <= maxBytes) return json;
    }
  }
}

/** What a model said to {@link CALL_TOOL}; null where it is no call. */
export function throughCall(argumentsJson: string): ThroughCall | null {
  const args = parseJson(argumentsJson);
  if (!isJsonObject(args) || typeof args.name !== 'string') return null;
  const { name, arguments: given = {} } = args;
  return { name, arguments: typeof given === 'string' ? given : JSON.stringify(given) };
}

function shownTool({ name, record, description, parameters }: NamedSearchableTool): JsonObject {
  return { name, server: record.server_id, description, parameters };
}

function searchDefinition(tools: readonly NamedSearchableTool[]): JsonObject {
  const servers = [...new Set(tools.map(({ record }) => record.server_id))];
  const named = servers.slice(0, MAX_NAMED_SERVERS).join(', ');
  const more = servers.length > MAX_NAMED_SERVERS ? ` and ${servers.length - MAX_NAMED_SERVERS} more` : '';
  return {
    type: 'function',
    function: {
      name: SEARCH_TOOL,
      description:
        `Finds tools by what they do. There are ${tools.length} tools of the servers ${named}${more}; none of them is ` +
        `listed here. Search before you say that something cannot be done, then call what you found with ${CALL_TOOL}.`,
      parameters: {
        type: 'object',
        properties: {
          query: { type: 'string', description: 'a few words about what the tool should do' },
          limit: { type: 'integer', minimum: 1, maximum: MAX_RESULTS, description: `default ${DEFAULT_RESULTS}` },
        },
        required: ['query'],
      },
    },
  };
}

const callDefinition: JsonObject = {
  type: 'function',
  function: {
    name: CALL_TOOL,
    description: `Calls a tool that ${SEARCH_TOOL} found.`,
    parameters: {
      type: 'object',
      properties: {
        name: { type: 'string', description: `the name that ${SEARCH_TOOL} gave` },
        arguments: { type: 'object', description: 'as the parameters of that tool say' },
      },
      required: ['name', 'arguments'],
    },
  },
};
