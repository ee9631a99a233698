import type { StoreStamps } from './record-kind.ts';

/**
 * A selection of MCP servers and of their tools under a name, which tasks refer to. It only narrows: what a record does
 * not allow, no profile does. Complete, validated and deeply frozen, like a server's record.
 */
export interface McpProfile extends StoreStamps {
  readonly name: string;
  readonly description: string;
  /** A server belongs to the profile if its id is here, or if it has one of the tags. */
  readonly server_ids: readonly string[];
  readonly server_tags: readonly string[];
  /** Patterns; `null`: the profile does not narrow, empty: no tool. */
  readonly tool_allowlist: readonly string[] | null;
  readonly tool_denylist: readonly string[];
  /** server_id → patterns, for servers whose tools are narrowed further. */
  readonly allowed_tools: Readonly<Record<string, readonly string[]>>;
}

export const profileLimits = {
  descriptionChars: 1_024,
  serverIds: 1_024,
} as const;
