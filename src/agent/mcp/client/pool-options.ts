import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { version } from '../../../base/version.ts';
import type { StdioPolicy } from '../../../config/host/host-config.ts';
import { type EgressOptions, EgressRules } from '../../../server/egress/egress.ts';
import type { ReferencePolicy } from '../../../server/secrets/references.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const MINUTE = 60_000;

export interface PoolLimitSpec {
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly doc: string;
}

/** Limits of the pool that are not part of a record. */
export const poolLimitSpecs = {
  maxCallsInFlight: {
    default: 256,
    min: 1,
    max: 100_000,
    doc: 'concurrent calls to servers, all servers together',
  },
  maxQueuedCalls: {
    default: 2_048,
    min: 1,
    max: 1_000_000,
    doc: 'queued calls per server; a further call fails with mcp_budget_exceeded',
  },
  queueTimeoutMs: {
    default: 2 * MINUTE,
    min: 10,
    max: 60 * MINUTE,
    doc: 'how long a call may wait in the queue before it fails with mcp_budget_exceeded; tool_timeout_ms starts after the wait',
  },
  maxSubprocesses: {
    default: 32,
    min: 1,
    max: 10_000,
    doc: 'stdio server processes; an idle process is stopped to make room, and if none is idle the call fails with mcp_budget_exceeded',
  },
  toolsTtlMs: {
    default: MINUTE,
    min: 30_000,
    max: 5 * MINUTE,
    doc: 'how long a tools/list result is cached when the server sends no ttlMs',
  },
  minToolsTtlMs: {
    default: 5_000,
    min: 0,
    max: MINUTE,
    doc: 'lower bound for the ttlMs that a server sends',
  },
  maxToolsTtlMs: {
    default: 60 * MINUTE,
    min: 1_000,
    max: 24 * 60 * MINUTE,
    doc: 'upper bound for the ttlMs that a server sends',
  },
  probeTimeoutMs: {
    default: 5_000,
    min: 10,
    max: MINUTE,
    doc: 'how long to wait for the answer to the protocol probe, at most half of connect_timeout_ms; then the legacy handshake is used',
  },
  failureTtlMs: {
    default: 2_000,
    min: 1_000,
    max: 5_000,
    doc: 'how long a failed connect or tools/list is cached before it is tried again',
  },
  listTimeoutMs: { default: 15_000, min: 100, max: 5 * MINUTE, doc: 'deadline of one tools/list, all pages included' },
  maxListPages: { default: 64, min: 1, max: 10_000, doc: 'pages of one tools/list; a longer list fails' },
  maxTools: { default: 1_000, min: 1, max: 100_000, doc: 'tools of one server; a longer list fails' },
  maxListBytes: {
    default: 8 * MIB,
    min: KIB,
    max: 256 * MIB,
    doc: 'JSON size of all tools of one server; a larger list fails',
  },
  maxMessageBytes: {
    default: 16 * MIB,
    min: 64 * KIB,
    max: 256 * MIB,
    doc: 'size of one message of a server; a larger response fails with mcp_output_too_large and is never parsed',
  },
  maxGarbageLines: {
    default: 20_000,
    min: 0,
    max: 1_000_000,
    doc: 'lines on stdout that are not MCP messages, per window; more close the connection',
  },
  garbageWindowMs: { default: 10_000, min: 1, max: 3_600_000, doc: 'length of the window for maxGarbageLines' },
  maxSchemaBytes: {
    default: 1 * MIB,
    min: 256,
    max: 16 * MIB,
    doc: 'JSON size of one input or output schema; a larger schema is not used for validation',
  },
  maxSchemaDepth: {
    default: 64,
    min: 4,
    max: 512,
    doc: 'nesting depth of one schema; a tool with a deeper schema is left out',
  },
  validationTimeoutMs: {
    default: 2_000,
    min: 10,
    max: 60_000,
    doc: 'deadline for compiling an expensive schema and for validating one value, in the validation thread; beyond it a result is not validated and arguments are rejected',
  },
  maxWaitingChecks: {
    default: 1_024,
    min: 1,
    max: 100_000,
    doc: 'values queued for the validation thread; a further value is not validated',
  },
  idleTimeoutMs: {
    default: 5 * MINUTE,
    min: 10,
    max: 24 * 60 * MINUTE,
    doc: 'an idle connection is closed after this time',
  },
  reconnectTries: {
    default: 3,
    min: 1,
    max: 100,
    doc: 'reconnect attempts before the server counts as down',
  },
  reconnectBaseMs: { default: 200, min: 1, max: MINUTE, doc: 'delay before the second attempt; doubles, with jitter' },
  reconnectMaxMs: { default: 2_000, min: 1, max: 10 * MINUTE, doc: 'maximum delay between two attempts' },
  stdinGraceMs: {
    default: 500,
    min: 0,
    max: MINUTE,
    doc: 'how long a server may take to exit after its stdin is closed',
  },
  termGraceMs: { default: 2_000, min: 0, max: MINUTE, doc: 'time between SIGTERM and SIGKILL' },
  stderrLineChars: { default: 4_096, min: 64, max: MIB, doc: 'maximum length of a stderr line in the log' },
  stderrWindowBytes: {
    default: 64 * KIB,
    min: KIB,
    max: 64 * MIB,
    doc: 'stderr of one server written to the log, per window',
  },
  stderrWindowMs: { default: 10_000, min: 100, max: 60 * MINUTE, doc: 'length of the window for stderrWindowBytes' },
} as const satisfies Record<string, PoolLimitSpec>;

export type PoolLimitName = keyof typeof poolLimitSpecs;
export type PoolLimits = Readonly<Record<PoolLimitName, number>>;

export interface PoolOptions {
  /** Parent of the private HOME of each stdio server, kept between runs: `<stateDir>/home/`. */
  readonly stateDir: string;
  /**
   * Directory of the OAuth tokens that `spear servers login` stores.
   * @default `<stateDir>/logins`
   */
  readonly loginsDir?: string;
  /**
   * Parent of the private TMPDIRs, which are removed after use.
   * @default the system's directory for temporary files
   */
  readonly tmpDir?: string;
  /**
   * PATH of stdio servers whose records set none.
   * @default "/usr/local/bin:/usr/bin:/bin"
   */
  readonly path?: string;
  /** Hosts and addresses that HTTP servers may have. */
  readonly egress?: EgressOptions;
  /**
   * Policy for stdio servers: `allow` runs them as their records say, `sandboxed` always in a sandbox, `deny` never.
   * @default "allow"
   */
  readonly stdio?: StdioPolicy;
  /**
   * Path of bubblewrap, or its name on `path`.
   * @default "bwrap"
   */
  readonly sandboxCommand?: string;
  /**
   * Client name and version in the MCP handshake.
   * @default { name: "spear" } with the version of this package
   */
  readonly client?: { readonly name: string; readonly version: string };
  /** @default see {@link poolLimitSpecs} */
  readonly limits?: Partial<Record<PoolLimitName, number>>;
}

export interface CompiledPoolOptions extends PoolLimits {
  readonly stateDir: string;
  readonly loginsDir: string;
  readonly tmpDir: string;
  readonly path: string;
  readonly egress: EgressRules;
  readonly stdio: StdioPolicy;
  readonly sandboxCommand: string;
  readonly client: { readonly name: string; readonly version: string };
}

/** Login directory inside a state directory. */
export function loginsDirectory(stateDir: string): string {
  return join(stateDir, 'logins');
}

/** Records of a shared registry can run any command, so their stdio servers need a sandbox unless the node permits more. */
export function stdioPolicyOf(chosen: StdioPolicy | null, source: ReferencePolicy['mode']): StdioPolicy {
  return chosen ?? (source === 'listed' ? 'sandboxed' : 'allow');
}

/** @throws RangeError naming the option that is out of range */
export function compilePoolOptions(options: PoolOptions): CompiledPoolOptions {
  if (options.stateDir === '') throw new RangeError('stateDir must name a directory');
  return Object.freeze({
    ...compileLimits(options.limits ?? {}),
    stateDir: options.stateDir,
    loginsDir: options.loginsDir ?? loginsDirectory(options.stateDir),
    tmpDir: options.tmpDir ?? tmpdir(),
    path: options.path ?? '/usr/local/bin:/usr/bin:/bin',
    egress: new EgressRules(options.egress),
    stdio: options.stdio ?? 'allow',
    sandboxCommand: options.sandboxCommand ?? 'bwrap',
    client: Object.freeze({ ...(options.client ?? { name: 'spear', version }) }),
  });
}

function compileLimits(given: Partial<Record<PoolLimitName, number>>): PoolLimits {
  const names = Object.keys(poolLimitSpecs) as PoolLimitName[];
  return Object.fromEntries(
    names.map((name) => {
      const { min, max, default: fallback } = poolLimitSpecs[name];
      const value = given[name] ?? fallback;
      if (!Number.isInteger(value) || value < min || value > max) {
        throw new RangeError(`pool limit ${name} is ${value}; it must be a whole number from ${min} to ${max}`);
      }
      return [name, value];
    }),
  ) as PoolLimits;
}

/** Log entry of the pool. `message` contains no secret of a record. */
export interface PoolLogEntry {
  readonly level: 'debug' | 'info' | 'warn';
  readonly event:
    | 'connected'
    | 'connect_failed'
    | 'connection_lost'
    | 'idle_closed'
    | 'tools_listed'
    | 'list_odd'
    | 'tool_dropped'
    | 'schema_unchecked'
    | 'list_failed'
    | 'question_refused'
    | 'stderr'
    | 'stdout_garbage'
    | 'process_leftover'
    | 'sandbox_missing'
    | 'watchdog_lost';
  readonly serverId: string | null;
  readonly message: string;
  /** For `tools_listed`: duration, and the server's own names of the usable tools. */
  readonly durationMs?: number;
  readonly tools?: readonly string[];
  /** For `connected`: the negotiated protocol version. */
  readonly protocolVersion?: string | null;
}

export type PoolLog = (entry: PoolLogEntry) => void;
