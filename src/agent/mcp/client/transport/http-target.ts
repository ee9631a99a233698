/** Where an HTTP server is and what is sent to it, references resolved. Both hold secrets. */
export interface HttpTarget {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** The MCP client library is loaded when the first connection is made: it costs 145 ms. */
export type McpLibrary = typeof import('@modelcontextprotocol/client');
