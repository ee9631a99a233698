/** A line of the pool's log. `message` never holds a secret of a record. */
export interface PoolLogEntry {
  readonly level: 'debug' | 'info' | 'warn';
  readonly event:
    | 'connected'
    | 'connect_failed'
    | 'connection_lost'
    | 'idle_closed'
    | 'tools_listed'
    | 'tool_dropped'
    | 'list_failed'
    | 'stderr'
    | 'stdout_garbage'
    | 'process_leftover'
    | 'sandbox_missing'
    | 'watchdog_lost';
  readonly serverId: string | null;
  readonly message: string;
}

export type PoolLog = (entry: PoolLogEntry) => void;
