import { canonicalJson, isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { toToolError } from './client/errors.ts';

/** What the model reads resources with. No tool of a server can have these names encoded. */
export const LIST_RESOURCES_TOOL = 'mcp__list_resources';
export const READ_RESOURCE_TOOL = 'mcp__read_resource';

/** Servers that a definition names; the rest is a number. */
const MAX_NAMED_SERVERS = 20;

/** The resources of one server that the session may read now. @throws McpError */
export type ListServer = (record: McpServerRecord, signal: AbortSignal) => Promise<JsonObject>;

/** The two tools of one send, for the servers whose resources it may read. */
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

  /**
   * The answer to a call of the list, at most `maxBytes` long; null for arguments that are none. A server that cannot be
   * asked costs its own resources and nothing else.
   */
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

/** Resources are left out from the end where there are too many: a number says how many. */
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

/** What a model said to {@link READ_RESOURCE_TOOL}; null where it is no read. */
export function readCall(argumentsJson: string): { readonly server: string; readonly uri: string } | null {
  const args = parseJson(argumentsJson);
  if (!isJsonObject(args) || typeof args.server !== 'string' || typeof args.uri !== 'string') return null;
  return { server: args.server, uri: args.uri };
}

/**
 * A tool's answer whose links say how they are read, those that may be. Text of the server is not changed otherwise; where
 * the result would be too long, not at all.
 */
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
  const told = canonicalJson({ ...answer, content });
  return Buffer.byteLength(told) <= maxBytes ? told : json;
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
