import type { NameLists, SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { type LayerReason, quoted } from './decision.ts';
import type { LayerCheck } from './layer-check.ts';
import { matching, type NamedKind } from './name-matching.ts';

/** Where each layer speaks of resources, and where of prompts. */
interface Places {
  readonly field: 'allowed_resources' | 'allowed_prompts';
  readonly lists: 'resourceLists' | 'promptLists';
  readonly key: 'mcp.resource' | 'mcp.prompt';
}

const ofResources: Places = { field: 'allowed_resources', lists: 'resourceLists', key: 'mcp.resource' };
const ofPrompts: Places = { field: 'allowed_prompts', lists: 'promptLists', key: 'mcp.prompt' };

function recordCheck(kind: NamedKind, { field }: Places): LayerCheck {
  return {
    layer: 'registry',
    rule: field,
    denies: ({ record, tool }) => {
      if (record === null) return null;
      if (record[field].length === 0) return 'deny_all';
      return matching[kind].allows(record[field], tool ?? '') ? null : 'denied_by_registry';
    },
    detail: ({ serverId, record, tool }) =>
      record?.[field].length === 0
        ? `the server ${quoted(serverId)} has no ${field}, so all are denied`
        : `the server's ${field} do not match ${quoted(tool ?? '')}`,
    matched: ({ record, tool }) => (record === null ? undefined : matching[kind].first(record[field], tool ?? '')),
  };
}

/** Any denylist vetoes, every allowlist must let the name through. */
function listChecks(
  kind: NamedKind,
  { lists, key }: Places,
  layer: 'task' | 'session',
  reason: LayerReason,
): readonly LayerCheck[] {
  const of = (question: { readonly task: TaskPolicy; readonly session: SessionPolicy | null }): NameLists | null =>
    question[layer]?.[lists] ?? null;
  return [
    {
      layer,
      rule: `${key}_denylist`,
      denies: (question) => (matching[kind].denies(of(question)?.deny ?? [], question.tool ?? '') ? reason : null),
      detail: ({ tool }) => `the ${layer}'s ${key}_denylist matches ${quoted(tool ?? '')}`,
      matched: (question) =>
        of(question) === null ? undefined : matching[kind].first(of(question)?.deny ?? [], question.tool ?? ''),
    },
    {
      layer,
      rule: `${key}_allowlist`,
      denies: (question) => {
        const allow = of(question)?.allow ?? null;
        return allow === null || matching[kind].allows(allow, question.tool ?? '') ? null : reason;
      },
      detail: ({ tool }) => `the ${layer}'s ${key}_allowlist does not match ${quoted(tool ?? '')}`,
      matched: (question) =>
        of(question) === null ? undefined : matching[kind].first(of(question)?.allow ?? [], question.tool ?? ''),
    },
  ];
}

const checksOf = (kind: NamedKind, places: Places): readonly LayerCheck[] => [
  recordCheck(kind, places),
  ...listChecks(kind, places, 'task', 'denied_by_task'),
  ...listChecks(kind, places, 'session', 'denied_by_session'),
];

/** Whether a resource of a server that may be used may be read, whether a template stands for one, whether a prompt may be got. */
export const resourceChecks = checksOf('resource', ofResources);
export const templateChecks = checksOf('template', ofResources);
export const promptChecks = checksOf('prompt', ofPrompts);

/** Whether a record allows anything at all: a server that has nothing for anybody may not be used. */
export const recordAllowsAnything: LayerCheck = {
  layer: 'registry',
  rule: 'allowed_tools',
  denies: ({ record }) => (record === null || allowsAnything(record) ? null : 'deny_all'),
  detail: ({ serverId }) => `the server ${quoted(serverId)} has no allowed_tools, so all are denied`,
  matched: () => undefined,
};

function allowsAnything({ allowed_tools, allowed_resources, allowed_prompts }: McpServerRecord): boolean {
  return allowed_tools.length > 0 || allowed_resources.length > 0 || allowed_prompts.length > 0;
}
