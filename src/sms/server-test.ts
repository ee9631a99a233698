import { compilePatterns } from '../policy/pattern.ts';
import type { EgressOptions } from '../pool/egress.ts';
import { McpError } from '../pool/errors.ts';
import { McpPool } from '../pool/pool.ts';
import type { McpServerRecord, StdioPolicy } from '../protocol/record.ts';
import type { SecretSource } from '../secrets/secret-source.ts';

/** What came of connecting to a server once and listing its tools. */
export interface ServerTestResult {
  readonly ok: boolean;
  readonly server_id: string;
  readonly duration_ms: number;
  readonly tools: readonly { readonly name: string; readonly description: string; readonly allowed: boolean }[];
  /** Tools that the server lists and that cannot be used. */
  readonly dropped: readonly { readonly name: string; readonly reason: string }[];
  readonly error: { readonly code: string; readonly message: string } | null;
}

export interface ServerTestOptions {
  /** Where the private HOME of a stdio server lives. */
  readonly stateDir: string;
  /** PATH of a stdio server whose record sets none. */
  readonly path?: string;
  readonly secrets: SecretSource;
  /** Where an HTTP server may be. */
  readonly egress: EgressOptions;
  /** What becomes of a stdio server. */
  readonly stdio: StdioPolicy;
  readonly signal: AbortSignal;
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
    return { ok: false, ...common, tools: [], dropped: [], error: { code: error.code, message: error.message } };
  }
  const isAllowed = compilePatterns(record.allowed_tools);
  const { tools, dropped } = outcome.list;
  return {
    ok: true,
    ...common,
    tools: tools.map(({ name, description }) => ({ name, description, allowed: isAllowed(name) })),
    dropped: dropped.map(({ name, reason }) => ({ name, reason })),
    error: null,
  };
}
