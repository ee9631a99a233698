import type { JsonObject } from '../../base/json.ts';
import { textProblem } from '../../base/text-problem.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/record.ts';
import type { NamedKind } from '../policy/name-matching.ts';
import { aboutNamed, denialOf } from '../policy/walk.ts';
import type { PromptList, ResourceList } from './client/offers.ts';

/** Who asks, and what decides. */
export interface OfferScope {
  readonly record: McpServerRecord;
  readonly task: TaskPolicy;
  readonly session: SessionPolicy | null;
  readonly profile: McpProfile | null;
}

/** No longer than a hostcall takes it. */
const MAX_URI_CHARS = 4_096;
/** Templates are held against every pattern, character by character. */
const MAX_TEMPLATE_CHARS = 512;
const MAX_TEMPLATES = 100;
const MAX_PROMPT_CHARS = 256;

const aboutEntry = ['annotations', 'description', 'name', 'title'] as const;
const resourceFields = [...aboutEntry, 'mimeType', 'size', 'uri'] as const;
const templateFields = [...aboutEntry, 'mimeType', 'uriTemplate'] as const;
const promptFields = [...aboutEntry, 'arguments'] as const;

/** What of a server's resources may be read, and the templates of which some may. */
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
