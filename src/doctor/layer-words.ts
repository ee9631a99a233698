import { didYouMean } from '../base/nearest-key.ts';
import { type LayerReason, quoted } from '../policy/decision.ts';
import type { LayerAnswer, PolicyQuestion } from '../policy/walk.ts';

/** An answer of policy for a person: what it says, and what to do where it says no. */
export interface LayerWords {
  readonly text: string;
  /** Null where nothing is denied. */
  readonly fix: string | null;
}

export function wordsFor(answer: LayerAnswer, question: PolicyQuestion): LayerWords {
  if (answer.reason === null) return { text: agreement(answer, question), fix: null };
  return denials[answer.reason](answer, question);
}

type Words = (answer: LayerAnswer, question: PolicyQuestion) => LayerWords;

const denials: Readonly<Record<LayerReason, Words>> = {
  disabled: ({ layer }) =>
    layer === 'task'
      ? { text: 'the task does not turn MCP on', fix: 'set "mcp.enabled": true' }
      : { text: 'the session turns MCP off', fix: 'do not set mcp.enabled to false in the session' },
  not_allowed: (_, { serverId, task }) => ({
    text: `${quoted(serverId)} is not among the servers of the task${near(serverId, task.allowedServerIds)}`,
    fix: `add ${quoted(serverId)} to "mcp.allowed_server_ids" (or, without that key, to "mcp.default_server_ids")`,
  }),
  not_requested: (_, { serverId }) => ({
    text: `${quoted(serverId)} is not in the default set, and the session does not ask for it`,
    fix: `add ${quoted(serverId)} to "mcp.default_server_ids", or let the guest set mcp.server_ids`,
  }),
  registry_not_ready: () => ({
    text: 'there is no copy of the registry',
    fix: 'start the registry, or check --sms, --sms-token or --mcp-dir',
  }),
  stale_registry: () => ({
    text: 'the copy of the registry is too old to be used',
    fix: 'bring the registry back or give this node a valid token; mcp.max_staleness_ms is the limit of age',
  }),
  unknown_server: (_, { serverId, view }) => {
    const known = [...(view?.servers.keys() ?? [])];
    const has = known.length === 0 ? 'it is empty' : `it has ${cut(known)}`;
    const name = quoted(serverId);
    return {
      text: `${name} is not in the registry; ${has}${near(serverId, known)}`,
      fix: `register ${name} (spear servers apply, or a file in --mcp-dir), or correct the id in the task`,
    };
  },
  deny_all: (_, { serverId }) => ({
    text: `the record of ${quoted(serverId)} allows no tool at all`,
    fix: `list the tools that may be called in allowed_tools of ${quoted(serverId)}, for example ["read_*"]`,
  }),
  denied_by_registry: (_, { serverId, tool, record }) => ({
    text: `no pattern of the record matches: ${cut(record?.allowed_tools ?? [])}`,
    fix: `add ${quoted(tool ?? '')} to allowed_tools of ${quoted(serverId)}`,
  }),
  denied_by_task: (answer, question) => byList(answer, question, question.task.toolAllowlist),
  denied_by_session: (answer, question) => {
    const { session, serverId } = question;
    if (answer.rule !== 'mcp.server_ids') return byList(answer, question, session?.toolAllowlist ?? null);
    return {
      text: `the session chose other servers: ${session?.serverIds?.join(', ') || 'none'}`,
      fix: `add ${quoted(serverId)} to the session's mcp.server_ids`,
    };
  },
};

function byList({ matched }: LayerAnswer, { tool }: PolicyQuestion, allowlist: readonly string[] | null): LayerWords {
  if (matched !== null) return { text: `${quoted(matched)} matches`, fix: `take ${quoted(matched)} out of the list` };
  const text = allowlist?.length ? `no pattern matches: ${cut(allowlist)}` : 'it is empty';
  return { text, fix: `add ${quoted(tool ?? '')} to the list` };
}

/** By the layer and the field that was looked at. */
function agreement({ layer, rule, matched }: LayerAnswer, { serverId, session }: PolicyQuestion): string {
  switch (rule) {
    case 'mcp.enabled':
      return `the ${layer} has MCP on`;
    case 'mcp.allowed_server_ids':
      return `the task allows ${quoted(serverId)}`;
    case 'mcp.server_ids':
      return session?.serverIds
        ? `the session asks for ${quoted(serverId)}`
        : 'the session did not choose: the default set applies';
    case 'server_id':
      return `the registry has ${quoted(serverId)}`;
    case 'allowed_tools':
      return `the record allows ${quoted(matched ?? '')}`;
    default:
      if (matched !== null) return `${quoted(matched)} matches`;
      return rule === 'mcp.tool_denylist' ? 'no pattern matches' : 'there is none';
  }
}

const SHOWN_NAMES = 10;

function cut(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map(quoted).join(', ');
  return names.length > SHOWN_NAMES ? `${shown}, … (${names.length})` : shown;
}

function near(name: string, known: readonly string[]): string {
  const hint = didYouMean(name, known);
  return hint === undefined ? '' : `; ${hint}`;
}
