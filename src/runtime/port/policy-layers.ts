import { textProblem } from '../../base/text-problem.ts';

/** The namespace of whatever names none. */
export const DEFAULT_NAMESPACE = 'default';

/**
 * The three layers of policy as plain data. In every list of tools, resources or prompts `null` means "this layer does not narrow" and an
 * empty allowlist means "nothing".
 */
export interface TaskPolicy {
  readonly enabled: boolean;
  /** Whose task it is; left out: `default`. */
  readonly namespace?: string;
  /** Name of the task, for stops; left out: it has none. */
  readonly name?: string;
  /** `null`: the task lists none, and all that its profile and its tags choose are its default set. */
  readonly defaultServerIds: readonly string[] | null;
  /** The ceiling: nothing a session asks for goes beyond it. `null`: its profile and its tags choose. */
  readonly allowedServerIds: readonly string[] | null;
  /** A run without the tools of one of these fails at its start. @default none: it continues, marked as degraded */
  readonly requiredServerIds?: readonly string[];
  /** A server must have one of these tags; `null`: no tag is asked for. */
  readonly serverTags: readonly string[] | null;
  readonly toolAllowlist: readonly string[] | null;
  readonly toolDenylist: readonly string[];
  /** Patterns of URIs. */
  readonly resourceLists: NameLists;
  readonly promptLists: NameLists;
  /** Whether the model gets a tool that lists resources and one that reads them, where the session does not choose. */
  readonly resourceTools: boolean;
  /** How tools are named to the model where the session does not choose. */
  readonly toolNaming: ToolNaming;
  /** Whether the model gets a search instead of all definitions. */
  readonly toolSearch: ToolSearchPolicy;
  /** The profile of the registry that narrows all of this; `null`: none does. */
  readonly profile: ProfileChoice | null;
}

export const namespaceOf = ({ namespace = DEFAULT_NAMESPACE }: TaskPolicy): string => namespace;

/** What one layer says of resources or of prompts. */
export interface NameLists {
  readonly allow: readonly string[] | null;
  readonly deny: readonly string[];
}

export const noLists: NameLists = Object.freeze({ allow: null, deny: Object.freeze([]) });

/** What a task leaves of its profile. In every field `null` means "as the profile has it". */
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

/** Far below what providers take, and about where models begin to choose badly. */
export const DEFAULT_SEARCH_ABOVE = 40;

/** Off: what a model is shown does not change because a server got one tool more. */
export const noToolSearch: ToolSearchPolicy = Object.freeze({ mode: 'off', above: DEFAULT_SEARCH_ABOVE });

export interface SessionPolicy {
  readonly enabled: boolean;
  /** `null`: the session did not choose, the task's default set applies. */
  readonly serverIds: readonly string[] | null;
  readonly toolAllowlist: readonly string[] | null;
  readonly toolDenylist: readonly string[];
  readonly resourceLists: NameLists;
  readonly promptLists: NameLists;
  readonly resourceTools: boolean;
  readonly toolNaming: ToolNaming;
  /** As the task says. */
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

/** What of a server is asked for: a tool is called, a resource is read by its uri, a prompt is got by its name. */
export type CallKind = 'tool' | 'resource' | 'prompt';

/** Sizes of a list of patterns in a record, a task or a session. */
export const patternLimits = { patterns: 512, patternChars: 256 } as const;

// Apart from pattern.ts, because the guest's thread checks lists and never matches a name.

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
