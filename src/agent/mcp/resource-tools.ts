import { canonicalJson, isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { toToolError } from './client/errors.ts';

/** Names of the two resource tools. No encoded tool name can equal them. */
export const LIST_RESOURCES_TOOL = 'mcp__list_resources';
export const READ_RESOURCE_TOOL = 'mcp__read_resource';

/** Servers named in the definition; the rest is counted. */
const MAX_NAMED_SERVERS = 20;

/** Lists the resources of one server that the session may read. @throws McpError */
export type ListServer = (record: McpServerRecord, signal: AbortSignal) => Promise<JsonObject>;

/** The two resource tools of one send. */
export class ResourceTools {
  readonly definitions: readonly JsonObject[];
  readonly #records: ReadonlyMap<string, McpServerRecord>;

  constructor(records: readonly McpServerRecord[]) {
    this.#records = new Map(records.map((record) => [record.server_id, record]));
    this.definitions = Object.freeze([listDefinition([...this.#records.keys()]), readDefinition]);
  }

  record(serverId: string): McpServerRecord | null {
    return this.#records.get(serverId) ?? null;
  }

  /** Result of a list call, at most `maxBytes` long; null: invalid arguments. A failed server loses only its own resources. */
  async list(argumentsJson: string, maxBytes: number, ask: ListServer, signal: AbortSignal): Promise<string | null> {
    const args = argumentsJson.trim() === '' ? {} : parseJson(argumentsJson);
    if (!isJsonObject(args)) return null;
    const { server } = args;
    const wanted = server === undefined ? [...this.#records.values()] : [this.record(String(server))];
    const records = wanted.filter((record) => record !== null);
    if (records.length < wanted.length) return null;
    const servers = await Promise.all(
      records.map(async (record): Promise<JsonObject> => {
        try {
          return await ask(record, signal);
        } catch (error) {
          return { server_id: record.server_id, error: { ...toToolError(error) } };
        }
      }),
    );
    return fitted(servers, maxBytes);
  }
}

/** Leaves out resources from the end until the result fits, and counts them. */
function fitted(servers: readonly JsonObject[], maxBytes: number): string {
  const total = servers.reduce((sum, { resources }) => sum + (Array.isArray(resources) ? resources.length : 0), 0);
  for (let shown = total; ; shown = Math.floor(shown / 2)) {
    let room = shown;
    const kept = servers.map((server) => {
      if (!Array.isArray(server.resources)) return server;
      const resources = server.resources.slice(0, room);
      room -= resources.length;
      return { ...server, resources };
    });
    const json = canonicalJson({ servers: kept, ...(shown < total ? { left_out: total - shown } : {}) });
    if (Buffer.byteLength(json) <= maxBytes) return json;
    if (shown === 0) return canonicalJson({ servers: [], left_out: total });
  }
}

/** Parses the arguments of {@link READ_RESOURCE_TOOL}; null: invalid. */
export function readCall(argumentsJson: string): { readonly server: string; readonly uri: string } | null {
  const args = parseJson(argumentsJson);
  if (!isJsonObject(args) || typeof args.server !== 'string' || typeof args.uri !== 'string') return null;
  return { server: args.server, uri: args.uri };
}

/** Adds to each readable link of a tool result how to read it, unless the result would exceed `maxBytes`. */
export function withReadableLinks(
  json: string,
  serverId: string,
  maxBytes: number,
  mayRead: (uri: string) => boolean,
): string {
  if (!json.includes('"resource_link"')) return json;
  const answer = parseJson(json);
  if (!isJsonObject(answer) || !Array.isArray(answer.content)) return json;
  const content = answer.content.map((block) => {
    if (!isJsonObject(block) || block.type !== 'resource_link' || typeof block.uri !== 'string') return block;
    if (!mayRead(block.uri)) return block;
    return { ...block, read_with: { tool: READ_RESOURCE_TOOL, arguments: { server: serverId, uri: block.uri } } };
  });
  const extended = canonicalJson({ ...answer, content });
  return Buffer.byteLength(extended) <= maxBytes ? extended : json;
}

function listDefinition(servers: readonly string[]): JsonObject {
  const named = servers.slice(0, MAX_NAMED_SERVERS).join(', ');
  const more = servers.length > MAX_NAMED_SERVERS ? ` and ${servers.length - MAX_NAMED_SERVERS} more` : '';
  return {
    type: 'function',
    function: {
      name: LIST_RESOURCES_TOOL,
      description:
        `Lists resources (documents, files, records) that can be read with ${READ_RESOURCE_TOOL}, and templates of their ` +
        `URIs. Servers: ${named}${more}.`,
      parameters: {
        type: 'object',
        properties: { server: { type: 'string', description: 'only of this server; default: of all' } },
      },
    },
  };
}

const readDefinition: JsonObject = {
  type: 'function',
  function: {
    name: READ_RESOURCE_TOOL,
    description: `Reads a resource that ${LIST_RESOURCES_TOOL} or a tool's answer named.`,
    parameters: {
      type: 'object',
      properties: {
        server: { type: 'string', description: 'the server_id that has it' },
        uri: { type: 'string', description: 'its uri, or one made from a template' },
      },
      required: ['server', 'uri'],
    },
  },
};
