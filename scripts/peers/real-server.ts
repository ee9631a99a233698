/** Stands for an empty folder that the server is let into. */
export const FOLDER = '{folder}';
/** Stands for a free port, for a server that is spoken to over HTTP. */
export const PORT = '{port}';

/** A published MCP server, as it is started here: with credentials that are made up. */
export interface RealServer {
  /** A `server_id`. */
  readonly id: string;
  readonly package: string;
  readonly version: string;
  /** @default npm */
  readonly from?: 'npm' | 'PyPI';
  /** Which of its commands. @default the first, or the one that is called like the package */
  readonly bin?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** How it is spoken to, and where it listens. @default stdio */
  readonly http?: { readonly kind: 'streamable_http' | 'http_sse_legacy'; readonly path: string };
}

export const transportOf = ({ http }: RealServer): 'stdio' | 'streamable_http' | 'http_sse_legacy' =>
  http?.kind ?? 'stdio';
