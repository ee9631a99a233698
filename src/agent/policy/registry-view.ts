import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { StopRecord } from '../../server/records/stop.ts';

/** What policy sees of the registry. `stale` is a snapshot older than the node's max_staleness_ms. */
export interface RegistryView {
  readonly servers: ReadonlyMap<string, McpServerRecord>;
  readonly stale: boolean;
  /** Null where none were received: they are asked for only where the task names one. */
  readonly profiles: ProfilesView | null;
  /** Active stops by id; left out: the records come from a source that has none. */
  readonly stops?: ReadonlyMap<string, StopRecord>;
}

export interface ProfilesView {
  readonly byName: ReadonlyMap<string, McpProfile>;
  readonly stale: boolean;
}
