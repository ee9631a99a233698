/** Label value for values beyond the limit and for unverified names. */
export const OTHER = 'other';

/**
 * The values of one label: the first `max` different ones, then `other`. Every value is a series in the memory of this process
 * and of the collector.
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

/** Limits on servers, and on tools of all servers together, with their own series. */
export const MAX_LABELLED_SERVERS = 100;
export const MAX_LABELLED_TOOLS = 200;

/**
 * Labels of MCP servers and tools. Guests and models may write any name, so a name becomes a label only if the task, the registry
 * or the server itself declared it before.
 */
export class McpLabels {
  readonly #servers = new BoundedLabel(MAX_LABELLED_SERVERS);
  readonly #tools = new BoundedLabel(MAX_LABELLED_TOOLS);
  readonly #known = new Map<string, ReadonlySet<string>>();

  /** Declares a server of the registry or of the task. */
  knowServer(serverId: string): void {
    if (!this.#known.has(serverId) && this.#known.size < MAX_LABELLED_SERVERS) this.#known.set(serverId, new Set());
  }

  /** Declares the tools that the server listed. */
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
    // Counted per server: two servers may have a tool of the same name.
    const place = `${server}\0${tool}`;
    return { server_id: server, tool: this.#tools.value(place) === place ? tool : OTHER };
  }
}
