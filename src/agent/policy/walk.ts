import type { CallKind, SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import {
  type Decision,
  type Denial,
  deny,
  EVERY_SERVER,
  type LayerCheck,
  type LayerQuestion,
  type LayerReason,
  type PolicyLayer,
  type RegistryView,
} from './decision.ts';
import type { ToolDefinition } from './definition-hash.ts';
import { callChecks, choiceChecks, namedChecks, selectionOfServers, serverChecks, toolChecks } from './layer-checks.ts';
import type { NamedKind } from './pattern.ts';
import { profileOf } from './record-checks.ts';

/** A question and the checks that answer it, in their order. */
export interface PolicyQuestion extends LayerQuestion {
  readonly checks: readonly LayerCheck[];
}

/** May this server be used now? Asked at injection, and when a guest opens it. */
export function aboutServer(
  view: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
  serverId: string,
): PolicyQuestion {
  const record = view?.servers.get(serverId) ?? null;
  return {
    checks: serverChecks,
    view,
    task,
    session,
    profile: profileOf(view, task),
    serverId,
    record,
    tool: null,
    definition: null,
  };
}

/** May this tool, resource or prompt of this server be had now? Asked at every call, and again at its dispatch. */
export function aboutCall(
  view: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
  serverId: string,
  tool: string,
  definition: ToolDefinition | null = null,
  kind: CallKind = 'tool',
): PolicyQuestion {
  const record = view?.servers.get(serverId) ?? null;
  const profile = profileOf(view, task);
  return { checks: callChecks[kind], view, task, session, profile, serverId, record, tool, definition };
}

/** Which tools of a server that may be used may be called? Asked for each of its list. */
export function aboutTool(
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  profile: McpProfile | null,
  tool: string,
  definition: ToolDefinition | null = null,
): PolicyQuestion {
  const { server_id: serverId } = record;
  return { checks: toolChecks, view: null, task, session, profile, serverId, record, tool, definition };
}

/** The same of a resource, a template or a prompt. */
export function aboutNamed(
  kind: NamedKind,
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  profile: McpProfile | null,
  name: string,
): PolicyQuestion {
  return { ...aboutTool(record, task, session, profile, name), checks: namedChecks[kind] };
}

/** Does the task mean this server, of which it has no list? */
export function aboutSelection(view: RegistryView, task: TaskPolicy, record: McpServerRecord): PolicyQuestion {
  const profile = profileOf(view, task);
  const { server_id: serverId } = record;
  return {
    checks: selectionOfServers,
    view,
    task,
    session: null,
    profile,
    serverId,
    record,
    tool: null,
    definition: null,
  };
}

/** May the servers be chosen that the task does not list? What stands against all of them. */
export function aboutChoice(
  view: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
): PolicyQuestion {
  const profile = profileOf(view, task);
  return {
    checks: choiceChecks,
    view,
    task,
    session,
    profile,
    serverId: EVERY_SERVER,
    record: null,
    tool: null,
    definition: null,
  };
}

/** The first denial of the walk, or the record that is used. */
export function decide(question: PolicyQuestion): Decision {
  return denialOf(question) ?? { allowed: true, record: question.record as McpServerRecord }; // none: the walk denies
}

export function denialOf(question: PolicyQuestion): Denial | null {
  for (const check of question.checks) {
    const reason = check.denies(question);
    if (reason !== null) return deny(reason, check.layer, check.detail(question));
  }
  return null;
}

export function decideCall(
  view: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
  serverId: string,
  tool: string,
  definition: ToolDefinition | null = null,
  kind: CallKind = 'tool',
): Decision {
  return decide(aboutCall(view, task, session, serverId, tool, definition, kind));
}

/** What one layer says, and which of its words says it. */
export interface LayerAnswer {
  readonly layer: PolicyLayer;
  /** The field or key that was looked at. */
  readonly rule: string;
  /** `silent`: the layer could narrow here, and does not. */
  readonly verdict: 'allows' | 'denies' | 'silent';
  /** The pattern or id that decided; null where none did. */
  readonly matched: string | null;
  /** Set where it denies. */
  readonly reason: LayerReason | null;
}

/** All answers of the walk: those after the first denial too. */
export function explain(question: PolicyQuestion): LayerAnswer[] {
  return question.checks.flatMap<LayerAnswer>(({ layer, rule, denies, matched }) => {
    const reason = denies(question);
    const by = matched(question);
    if (reason !== null) return [{ layer, rule, verdict: 'denies', matched: by ?? null, reason }];
    return by === undefined ? [] : [{ layer, rule, verdict: by === null ? 'silent' : 'allows', matched: by, reason }];
  });
}

export function firstDenial(answers: readonly LayerAnswer[]): LayerAnswer | null {
  return answers.find(({ verdict }) => verdict === 'denies') ?? null;
}
