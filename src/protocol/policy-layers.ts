import type { McpServerRecord } from './record.ts';

/**
 * The three layers of policy as plain data. In every list of tools `null` means "this layer does not narrow" and an
 * empty allowlist means "nothing".
 */
export interface TaskPolicy {
  readonly enabled: boolean;
  readonly defaultServerIds: readonly string[];
  /** The ceiling: nothing a session asks for goes beyond it. */
  readonly allowedServerIds: readonly string[];
  readonly toolAllowlist: readonly string[] | null;
  readonly toolDenylist: readonly string[];
  /** How tools are named to the model where the session does not choose. */
  readonly toolNaming: ToolNaming;
}

export const toolNamings = ['encoded', 'readable'] as const;
export type ToolNaming = (typeof toolNamings)[number];

export function isToolNaming(value: unknown): value is ToolNaming {
  return toolNamings.some((naming) => naming === value);
}

export interface SessionPolicy {
  readonly enabled: boolean;
  /** `null`: the session did not choose, the task's default set applies. */
  readonly serverIds: readonly string[] | null;
  readonly toolAllowlist: readonly string[] | null;
  readonly toolDenylist: readonly string[];
  readonly toolNaming: ToolNaming;
  /** Off, the built-in inventory text, or a template. */
  readonly inventory: boolean | string;
}

/** What policy sees of the registry. `stale` is a snapshot older than the node's max_staleness_ms. */
export interface RegistryView {
  readonly servers: ReadonlyMap<string, McpServerRecord>;
  readonly stale: boolean;
}

/** MCP is off unless a task turns it on. */
export const disabledTask: TaskPolicy = Object.freeze({
  enabled: false,
  defaultServerIds: Object.freeze([]),
  allowedServerIds: Object.freeze([]),
  toolAllowlist: null,
  toolDenylist: Object.freeze([]),
  toolNaming: 'encoded',
});

/** The policy of a session that has set no parameter yet. */
export function initialSession(task: TaskPolicy): SessionPolicy {
  return Object.freeze({
    enabled: task.enabled,
    serverIds: null,
    toolAllowlist: null,
    toolDenylist: Object.freeze([]),
    toolNaming: task.toolNaming,
    inventory: false,
  });
}
