import { textProblem } from '../../base/text.ts';

/** Namespace of a task without one. */
export const DEFAULT_NAMESPACE = 'default';

/**
 * The layers of policy as plain data. In every list of tools, resources or prompts, `null` means "this layer does not
 * narrow" and an empty allowlist means "nothing".
 */
export interface TaskPolicy {
  readonly enabled: boolean;
  /** @default `default` */
  readonly namespace?: string;
  /** Name of the task, for stops. @default none */
  readonly name?: string;
  /** `null`: the servers that its profile and its tags select. */
  readonly defaultServerIds: readonly string[] | null;
  /** Upper bound for sessions. `null`: the servers that its profile and its tags select. */
  readonly allowedServerIds: readonly string[] | null;
  /** A run without the tools of one of these fails at its start. @default none: it continues, marked as degraded */
  readonly requiredServerIds?: readonly string[];
  /** A server must have one of these tags; `null`: any server. */
  readonly serverTags: readonly string[] | null;
  readonly toolAllowlist: readonly string[] | null;
  readonly toolDenylist: readonly string[];
  /** Patterns of URIs. */
  readonly resourceLists: NameLists;
  readonly promptLists: NameLists;
  /** Whether the model gets tools that list and read resources, unless the session sets it. */
  readonly resourceTools: boolean;
  /** Form of tool names for the model, unless the session sets it. */
  readonly toolNaming: ToolNaming;
  /** Whether the model gets a search instead of all definitions. */
  readonly toolSearch: ToolSearchPolicy;
  /** The registry profile that narrows this policy; `null`: none. */
  readonly profile: ProfileChoice | null;
}

export const namespaceOf = ({ namespace = DEFAULT_NAMESPACE }: TaskPolicy): string => namespace;

/** Allowlist and denylist of one layer for resources or prompts. */
export interface NameLists {
  readonly allow: readonly string[] | null;
  readonly deny: readonly string[];
}

export const noLists: NameLists = Object.freeze({ allow: null, deny: Object.freeze([]) });

/** Narrowing of a profile by a task. `null`: as in the profile. */
export interface ProfileOverrides {
  readonly server_ids: readonly string[] | null;
  readonly server_tags: readonly string[] | null;
  readonly tool_allowlist: readonly string[] | null;
  readonly tool_denylist: readonly string[];
  readonly allowed_tools: Readonly<Record<string, readonly string[]>>;
}

export const noOverrides: ProfileOverrides = Object.freeze({
  server_ids: null,
  server_tags: null,
  tool_allowlist: null,
  tool_denylist: Object.freeze([]),
  allowed_tools: Object.freeze({}),
});

export interface ProfileChoice {
  readonly name: string;
  readonly overrides: ProfileOverrides;
}

export const toolNamings = ['encoded', 'readable'] as const;
export type ToolNaming = (typeof toolNamings)[number];

export function isToolNaming(value: unknown): value is ToolNaming {
  return toolNamings.some((naming) => naming === value);
}

export const toolSearchModes = ['auto', 'on', 'off'] as const;
export type ToolSearchMode = (typeof toolSearchModes)[number];

export interface ToolSearchPolicy {
  readonly mode: ToolSearchMode;
  /** `auto`: with more tools than this. */
  readonly above: number;
}

export function isToolSearchMode(value: unknown): value is ToolSearchMode {
  return toolSearchModes.some((mode) => mode === value);
}

/** Far below the limits of providers; about where models start to choose badly. */
export const DEFAULT_SEARCH_ABOVE = 40;

/** Off, so that the tools shown to a model do not change when a server adds one. */
export const noToolSearch: ToolSearchPolicy = Object.freeze({ mode: 'off', above: DEFAULT_SEARCH_ABOVE });

export interface SessionPolicy {
  readonly enabled: boolean;
  /** `null`: the task's default set. */
  readonly serverIds: readonly string[] | null;
  readonly toolAllowlist: readonly string[] | null;
  readonly toolDenylist: readonly string[];
  readonly resourceLists: NameLists;
  readonly promptLists: NameLists;
  readonly resourceTools: boolean;
  readonly toolNaming: ToolNaming;
  /** From the task. */
  readonly toolSearch: ToolSearchPolicy;
  /** Off, the built-in inventory text, or a template. */
  readonly inventory: boolean | string;
}

/** MCP is off unless a task turns it on. */
export const disabledTask: TaskPolicy = Object.freeze({
  enabled: false,
  defaultServerIds: Object.freeze([]),
  allowedServerIds: Object.freeze([]),
  serverTags: null,
  toolAllowlist: null,
  toolDenylist: Object.freeze([]),
  resourceLists: noLists,
  promptLists: noLists,
  resourceTools: false,
  toolNaming: 'encoded',
  toolSearch: noToolSearch,
  profile: null,
});

/** The policy of a session that has set no parameter yet. */
export function initialSession(task: TaskPolicy): SessionPolicy {
  return Object.freeze({
    enabled: task.enabled,
    serverIds: null,
    toolAllowlist: null,
    toolDenylist: Object.freeze([]),
    resourceLists: noLists,
    promptLists: noLists,
    resourceTools: task.resourceTools,
    toolNaming: task.toolNaming,
    toolSearch: task.toolSearch,
    inventory: false,
  });
}

/** What a call to a server requests: a tool call, a resource by URI, or a prompt by name. */
export type CallKind = 'tool' | 'resource' | 'prompt';

/** Sizes of a list of patterns in a record, a task or a session. */
export const patternLimits = { patterns: 512, patternChars: 256 } as const;

// The guest thread only validates pattern lists; matching is in agent/policy.

export function isStringList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

export function patternProblem(pattern: string): string | null {
  return textProblem(pattern, patternLimits.patternChars);
}

export function patternListProblem(value: unknown): string | null {
  if (!isStringList(value)) return 'must be a list of strings';
  if (value.length > patternLimits.patterns) return `has more than ${patternLimits.patterns} patterns`;
  for (const [index, pattern] of value.entries()) {
    const problem = patternProblem(pattern);
    if (problem !== null) return `[${index}] ${problem}`;
  }
  return null;
}
