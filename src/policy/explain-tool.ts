import { nearestKey } from '../base/nearest-key.ts';
import type { RegistryView, SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type ExclusionReason, type PolicyLayer, quoted } from './decision.ts';
import { compilePattern } from './pattern.ts';

/** `silent`: the layer could narrow here, and does not. */
export type LayerVerdict = 'allows' | 'denies' | 'silent';

/** What one layer says about a server or a tool, and which of its words says it. */
export interface LayerAnswer {
  readonly layer: PolicyLayer;
  /** The field or key that was looked at. */
  readonly rule: string;
  readonly verdict: LayerVerdict;
  /** The pattern or id that decided; null where none did. */
  readonly matched: string | null;
  readonly detail: string;
  /** Set where it denies: the word of the decision log, and what to do. */
  readonly reason: ExclusionReason | null;
  readonly fix: string | null;
}

const ALLOWED_TOOLS = 'allowed_tools';

/** Where a decision says no at the first layer that does, this goes through all of them. They always agree. */
export function explainServer(
  serverId: string,
  registry: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
): LayerAnswer[] {
  const name = quoted(serverId);
  const answers = [
    task.enabled
      ? says('task', 'mcp.enabled', 'allows', 'true', 'the task has MCP on')
      : denies('task', 'mcp.enabled', 'disabled', 'the task does not turn MCP on', 'set "mcp.enabled": "true"'),
    task.allowedServerIds.includes(serverId)
      ? says('task', 'mcp.allowed_server_ids', 'allows', serverId, `the task allows ${name}`)
      : denies(
          'task',
          'mcp.allowed_server_ids',
          'not_allowed',
          `${name} is not among the servers of the task${near(serverId, task.allowedServerIds)}`,
          `add ${name} to "mcp.allowed_server_ids" (or, without that key, to "mcp.default_server_ids")`,
        ),
  ];
  if (session !== null) answers.push(...sessionChoice(serverId, task, session));
  answers.push(...registryAnswers(serverId, registry));
  return answers;
}

/** Both for one call: what a record that allows nothing says of the server, it says of the tool. */
export function explainCall(
  serverId: string,
  tool: string,
  registry: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
): LayerAnswer[] {
  const server = explainServer(serverId, registry, task, session).filter(({ rule }) => rule !== ALLOWED_TOOLS);
  return [...server, ...explainTool(tool, registry?.servers.get(serverId) ?? null, task, session)];
}

/** `record` is null where the registry was not asked: then the other layers speak alone. */
export function explainTool(
  tool: string,
  record: Pick<McpServerRecord, 'server_id' | 'allowed_tools'> | null,
  task: Pick<TaskPolicy, 'toolAllowlist' | 'toolDenylist'>,
  session: Pick<SessionPolicy, 'toolAllowlist' | 'toolDenylist'> | null,
): LayerAnswer[] {
  const answers = [...(record === null ? [] : [allowedTools(tool, record)]), ...listAnswers(tool, 'task', task)];
  if (session !== null) answers.push(...listAnswers(tool, 'session', session));
  return answers;
}

export function firstDenial(answers: readonly LayerAnswer[]): LayerAnswer | null {
  return answers.find(({ verdict }) => verdict === 'denies') ?? null;
}

function sessionChoice(serverId: string, task: TaskPolicy, session: SessionPolicy): LayerAnswer[] {
  const name = quoted(serverId);
  if (!session.enabled) {
    const fix = 'do not set mcp.enabled to false in the session';
    return [denies('session', 'mcp.enabled', 'disabled', 'the session turns MCP off', fix)];
  }
  if (session.serverIds !== null) {
    if (session.serverIds.includes(serverId)) {
      return [says('session', 'mcp.server_ids', 'allows', serverId, `the session asks for ${name}`)];
    }
    const detail = `the session chose other servers: ${session.serverIds.join(', ') || 'none'}`;
    return [
      denies('session', 'mcp.server_ids', 'denied_by_session', detail, `add ${name} to the session's mcp.server_ids`),
    ];
  }
  if (task.defaultServerIds.includes(serverId)) {
    return [
      says('session', 'mcp.server_ids', 'allows', serverId, 'the session did not choose: the default set applies'),
    ];
  }
  return [
    denies(
      'session',
      'mcp.server_ids',
      'not_requested',
      `${name} is not in the default set, and the session does not ask for it`,
      `add ${name} to "mcp.default_server_ids", or let the guest set mcp.server_ids`,
    ),
  ];
}

function registryAnswers(serverId: string, registry: RegistryView | null): LayerAnswer[] {
  const name = quoted(serverId);
  if (registry === null) {
    const fix = 'start the registry, or check --sms, --sms-token or --mcp-dir';
    return [denies('node', 'registry', 'registry_not_ready', 'there is no copy of the registry', fix)];
  }
  const stale = registry.stale
    ? [
        denies(
          'node',
          'mcp.max_staleness_ms',
          'stale_registry',
          'the copy of the registry is too old to be used',
          'bring the registry back, or raise mcp.max_staleness_ms',
        ),
      ]
    : [];
  const record = registry.servers.get(serverId);
  if (record !== undefined) {
    const has = says('registry', 'server_id', 'allows', serverId, `the registry has ${name}`);
    return [...stale, has, ...(record.allowed_tools.length === 0 ? [allowedTools('', record)] : [])];
  }
  const known = [...registry.servers.keys()];
  const has = known.length === 0 ? 'it is empty' : `it has ${cut(known)}`;
  return [
    ...stale,
    denies(
      'registry',
      'server_id',
      'unknown_server',
      `${name} is not in the registry; ${has}${near(serverId, known)}`,
      `register ${name} (spear servers apply, or a file in --mcp-dir), or correct the id in the task`,
    ),
  ];
}

function allowedTools(
  tool: string,
  { server_id: id, allowed_tools: patterns }: Pick<McpServerRecord, 'server_id' | 'allowed_tools'>,
): LayerAnswer {
  const rule = ALLOWED_TOOLS;
  if (patterns.length === 0) {
    const fix = `list the tools that may be called in allowed_tools of ${quoted(id)}, for example ["read_*"]`;
    return denies('registry', rule, 'deny_all', `the record of ${quoted(id)} allows no tool at all`, fix);
  }
  const matched = matching(patterns, tool);
  if (matched !== null) return says('registry', rule, 'allows', matched, `the record allows ${quoted(matched)}`);
  const detail = `no pattern of the record matches: ${cut(patterns)}`;
  return denies(
    'registry',
    rule,
    'denied_by_registry',
    detail,
    `add ${quoted(tool)} to allowed_tools of ${quoted(id)}`,
  );
}

function listAnswers(
  tool: string,
  layer: 'task' | 'session',
  lists: Pick<TaskPolicy, 'toolAllowlist' | 'toolDenylist'>,
): LayerAnswer[] {
  const reason = layer === 'task' ? 'denied_by_task' : 'denied_by_session';
  const veto = matching(lists.toolDenylist, tool);
  const denial =
    veto === null
      ? says(layer, 'mcp.tool_denylist', 'silent', null, 'no pattern matches')
      : denies(
          layer,
          'mcp.tool_denylist',
          reason,
          `${quoted(veto)} matches`,
          `take ${quoted(veto)} out of the list`,
          veto,
        );
  if (lists.toolAllowlist === null) {
    return [denial, says(layer, 'mcp.tool_allowlist', 'silent', null, 'there is none')];
  }
  const matched = matching(lists.toolAllowlist, tool);
  if (matched !== null)
    return [denial, says(layer, 'mcp.tool_allowlist', 'allows', matched, `${quoted(matched)} matches`)];
  const detail = lists.toolAllowlist.length === 0 ? 'it is empty' : `no pattern matches: ${cut(lists.toolAllowlist)}`;
  return [denial, denies(layer, 'mcp.tool_allowlist', reason, detail, `add ${quoted(tool)} to the list`)];
}

const matching = (patterns: readonly string[], name: string): string | null =>
  patterns.find((pattern) => compilePattern(pattern)(name)) ?? null;

function says(
  layer: PolicyLayer,
  rule: string,
  verdict: 'allows' | 'silent',
  matched: string | null,
  detail: string,
): LayerAnswer {
  return { layer, rule, verdict, matched, detail, reason: null, fix: null };
}

function denies(
  layer: PolicyLayer,
  rule: string,
  reason: ExclusionReason,
  detail: string,
  fix: string,
  matched: string | null = null,
): LayerAnswer {
  return { layer, rule, verdict: 'denies', matched, detail, reason, fix };
}

const SHOWN_NAMES = 10;

function cut(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map(quoted).join(', ');
  return names.length > SHOWN_NAMES ? `${shown}, … (${names.length})` : shown;
}

function near(name: string, known: readonly string[]): string {
  const nearest = nearestKey(name, known);
  return nearest === undefined ? '' : `; did you mean ${quoted(nearest)}?`;
}
