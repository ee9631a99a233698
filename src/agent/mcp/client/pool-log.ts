/** A line of the pool's log. `message` never holds a secret of a record. */
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
  /** For `tools_listed`: how long the server took, and what it calls the tools that can be used. */
  readonly durationMs?: number;
  readonly tools?: readonly string[];
  /** For `connected`: the version of MCP that both sides agreed on. */
  readonly protocolVersion?: string | null;
}

export type PoolLog = (entry: PoolLogEntry) => void;
