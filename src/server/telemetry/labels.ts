/** The value that stands for all that found no place of their own, or that nobody vouches for. */
export const OTHER = 'other';

/**
 * The values of one label: the first `max` different ones, then `other`. Every value of a label is a series in the
 * memory of this process and of whoever collects from it.
 */
export class BoundedLabel {
  readonly #max: number;
  readonly #taken = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  value(wanted: string): string {
    if (this.#taken.has(wanted)) return wanted;
    if (this.#taken.size >= this.#max) return OTHER;
    this.#taken.add(wanted);
    return wanted;
  }
}

/** Different servers, and different tools of all servers together, that get series of their own. */
export const MAX_LABELLED_SERVERS = 100;
export const MAX_LABELLED_TOOLS = 200;

/**
 * Labels of MCP servers and tools. Guests and models may write any name, so a name is a label only if the task, the
 * registry or the server itself has said it before.
 */
export class McpLabels {
  readonly #servers = new BoundedLabel(MAX_LABELLED_SERVERS);
  readonly #tools = new BoundedLabel(MAX_LABELLED_TOOLS);
  readonly #known = new Map<string, ReadonlySet<string>>();

  /** The server is one of the registry's or the task's own. */
  knowServer(serverId: string): void {
    if (!this.#known.has(serverId) && this.#known.size < MAX_LABELLED_SERVERS) this.#known.set(serverId, new Set());
  }

  /** The server says that these are its tools. */
  knowTools(serverId: string, tools: readonly string[]): void {
    this.knowServer(serverId);
    if (this.#known.has(serverId)) this.#known.set(serverId, new Set(tools));
  }

  server(serverId: string | null): string {
    return serverId !== null && this.#known.has(serverId) ? this.#servers.value(serverId) : OTHER;
  }

  tool(serverId: string | null, tool: string): { server_id: string; tool: string } {
    const server = this.server(serverId);
    if (server === OTHER || !this.#known.get(server)?.has(tool)) return { server_id: server, tool: OTHER };
    // Counted together with its server: two servers may both have a tool of this name.
    const place = `${server}\0${tool}`;
    return { server_id: server, tool: this.#tools.value(place) === place ? tool : OTHER };
  }
}
