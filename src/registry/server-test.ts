import { McpError } from '../agent/mcp/client/errors.ts';
import { McpPool } from '../agent/mcp/client/pool.ts';
import { hashDefinition } from '../agent/policy/definition-hash.ts';
import { compilePatterns } from '../agent/policy/pattern.ts';
import type { JsonObject } from '../base/json.ts';
import type { StdioPolicy } from '../config/host/host-config.ts';
import type { EgressOptions } from '../server/egress/egress.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import type { SecretSource } from '../server/secrets/secret-file.ts';

export interface TestedTool {
  readonly name: string;
  readonly description: string;
  readonly allowed: boolean;
  /** Of the definition, as a pin has it. */
  readonly sha256: string;
  /** Only where it was asked for. */
  readonly definition?: JsonObject;
}

/** What came of connecting to a server once and listing its tools. */
export interface ServerTestResult {
  readonly ok: boolean;
  readonly server_id: string;
  readonly duration_ms: number;
  readonly tools: readonly TestedTool[];
  /** Tools that the server lists and that cannot be used. */
  readonly dropped: readonly { readonly name: string; readonly reason: string }[];
  /** What is odd about the list as a whole; null: nothing. */
  readonly notice: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

export interface ServerTestOptions {
  /** Where the private HOME of a stdio server lives. */
  readonly stateDir: string;
  /** Where logins of people are kept. @default in `stateDir` */
  readonly loginsDir?: string;
  /** PATH of a stdio server whose record sets none. */
  readonly path?: string;
  readonly secrets: SecretSource;
  /** Where an HTTP server may be. */
  readonly egress: EgressOptions;
  /** What becomes of a stdio server. */
  readonly stdio: StdioPolicy;
  readonly signal: AbortSignal;
  /** Whether the result has the tools' definitions. @default false */
  readonly definitions?: boolean;
  /** Gets what the server says on stderr, line by line. */
  readonly onStderr?: (line: string) => void;
}

/** Runs the server in this process's name, lists its tools, and ends it. */
export async function testServer(record: McpServerRecord, options: ServerTestOptions): Promise<ServerTestResult> {
  const startedAt = performance.now();
  const pool = new McpPool(
    {
      stateDir: options.stateDir,
      egress: options.egress,
      stdio: options.stdio,
      ...(options.loginsDir === undefined ? {} : { loginsDir: options.loginsDir }),
      ...(options.path === undefined ? {} : { path: options.path }),
    },
    {
      secrets: options.secrets,
      log: ({ event, message }) => {
        if (event === 'stderr') options.onStderr?.(message);
      },
    },
  );
  const outcome = await pool.listTools(record, { signal: options.signal }).then(
    (list) => ({ list }),
    (error: unknown) => ({ error }),
  );
  await pool.close();
  const common = { server_id: record.server_id, duration_ms: Math.round(performance.now() - startedAt) };
  if ('error' in outcome) {
    const { error } = outcome;
    if (!(error instanceof McpError)) throw error;
    const { code, message } = error;
    return { ok: false, ...common, tools: [], dropped: [], notice: null, error: { code, message } };
  }
  const isAllowed = compilePatterns(record.allowed_tools);
  const { tools, dropped, notice } = outcome.list;
  return {
    ok: true,
    ...common,
    tools: tools.map(({ name, description, inputSchema, outputSchema, annotations }) => {
      const definition = { name, description, inputSchema, outputSchema, annotations };
      const tested = { name, description, allowed: isAllowed(name), sha256: hashDefinition(definition) };
      return options.definitions ? { ...tested, definition } : tested;
    }),
    dropped: dropped.map(({ name, reason }) => ({ name, reason })),
    notice,
    error: null,
  };
}
