import type { JsonObject } from '../../base/json.ts';
import { textProblem } from '../../base/text.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { deny, type Exclusion, type ExclusionReason, exclusion } from '../policy/decision.ts';
import { policyHash } from '../policy/definition-hash.ts';
import type { NamedKind } from '../policy/pattern.ts';
import { aboutNamed, aboutTool, decide, denialOf } from '../policy/walk.ts';
import { McpConnectionError, McpTimeoutError } from './client/errors.ts';
import type { PromptList, ResourceList } from './client/lists.ts';
import type { ToolDescriptor, ToolList } from './client/tool-list.ts';

/** The tools of one server that a session may call, and the exclusions of the others. */
export interface ServerTools {
  readonly record: McpServerRecord;
  readonly tools: readonly ToolDescriptor[];
  readonly exclusions: readonly Exclusion[];
  /** The server's instructions; null: none. */
  readonly instructions: string | null;
  /** Set if the server could not be listed. */
  readonly failure: ExclusionReason | null;
  readonly durationMs: number;
}

type FilteredTools = Pick<ServerTools, 'tools' | 'exclusions'>;

/** Filtered lists by policy hash, and the last request: the next one is usually the same. */
interface FilteredList {
  readonly byPolicy: Map<string, FilteredTools>;
  last: (FilterInput & { readonly result: FilteredTools }) | null;
}

interface FilterInput {
  readonly record: McpServerRecord;
  readonly task: TaskPolicy;
  readonly session: SessionPolicy | null;
  readonly profile: McpProfile | null;
}

// Filtered lists live as long as the pool's list.
const filtered = new WeakMap<ToolList, FilteredList>();

/** Applies all policy layers to a server's tools, sorted by name. */
export function filterTools(
  list: ToolList,
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  profile: McpProfile | null,
): FilteredTools {
  const known = filtered.get(list) ?? { byPolicy: new Map(), last: null };
  filtered.set(list, known);
  const input = { record, task, session, profile };
  if (known.last !== null && isSame(known.last, input)) return known.last.result;
  const key = policyHash(record, task, session, profile);
  const result = known.byPolicy.get(key) ?? applyPolicy(list, input);
  known.byPolicy.set(key, result);
  known.last = { ...input, result };
  return result;
}

/** Policies are immutable, so identity is equality. */
const isSame = (one: FilterInput, other: FilterInput): boolean =>
  one.record === other.record &&
  one.task === other.task &&
  one.session === other.session &&
  one.profile === other.profile;

function applyPolicy(list: ToolList, { record, task, session, profile }: FilterInput): FilteredTools {
  const exclusions: Exclusion[] = list.dropped.map(({ name, reason, detail }) =>
    exclusion(record.server_id, name, deny(reason, 'node', detail)),
  );
  const tools = [...list.tools]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .filter((tool) => {
      const decision = decide(aboutTool(record, task, session, profile, tool.name, tool));
      if (!decision.allowed) exclusions.push(exclusion(record.server_id, tool.name, decision));
      return decision.allowed;
    });
  return { tools, exclusions };
}

/** Exclusion reason for a server that could not be listed. */
export function listFailure(error: unknown): ExclusionReason {
  if (error instanceof McpTimeoutError) return 'list_timeout';
  if (error instanceof McpConnectionError) {
    if (error.reason === 'env_missing' || error.reason === 'env_refused') return error.reason;
  }
  return 'list_failed';
}

/** Policy context of a list of resources or prompts. */
export interface OfferScope {
  readonly record: McpServerRecord;
  readonly task: TaskPolicy;
  readonly session: SessionPolicy | null;
  readonly profile: McpProfile | null;
}

/** Limit of the hostcall. */
const MAX_URI_CHARS = 4_096;
/** Templates are matched against every pattern, character by character. */
const MAX_TEMPLATE_CHARS = 512;
const MAX_TEMPLATES = 100;
const MAX_PROMPT_CHARS = 256;

const aboutEntry = ['annotations', 'description', 'name', 'title'] as const;
const resourceFields = [...aboutEntry, 'mimeType', 'size', 'uri'] as const;
const templateFields = [...aboutEntry, 'mimeType', 'uriTemplate'] as const;
const promptFields = [...aboutEntry, 'arguments'] as const;

/** Readable resources, and templates with at least one readable resource. */
export function readableResources({ resources, templates }: ResourceList, scope: OfferScope): JsonObject {
  const listed = resources.filter(({ uri }) => isAllowed('resource', uri, MAX_URI_CHARS, scope));
  const open = templates
    .slice(0, MAX_TEMPLATES)
    .filter(({ uriTemplate }) => isAllowed('template', uriTemplate, MAX_TEMPLATE_CHARS, scope));
  return {
    resources: listed.map((entry) => shown(entry, resourceFields)),
    server_id: scope.record.server_id,
    templates: open.map((entry) => shown(entry, templateFields)),
  };
}

export function availablePrompts({ prompts }: PromptList, scope: OfferScope): JsonObject {
  const listed = prompts.filter(({ name }) => isAllowed('prompt', name, MAX_PROMPT_CHARS, scope));
  return { prompts: listed.map((entry) => shown(entry, promptFields)), server_id: scope.record.server_id };
}

function isAllowed(kind: NamedKind, name: unknown, maxChars: number, scope: OfferScope): boolean {
  if (typeof name !== 'string' || textProblem(name, maxChars) !== null) return false;
  const { record, task, session, profile } = scope;
  return denialOf(aboutNamed(kind, record, task, session, profile, name)) === null;
}

function shown(entry: JsonObject, fields: readonly string[]): JsonObject {
  return Object.fromEntries(fields.flatMap((field) => (entry[field] === undefined ? [] : [[field, entry[field]]])));
}
