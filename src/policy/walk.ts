import type { RegistryView, SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type Decision, deny, type LayerReason, type PolicyLayer } from './decision.ts';
import { callChecks, type LayerCheck, type LayerQuestion, serverChecks, toolChecks } from './layer-checks.ts';

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
  return { checks: serverChecks, view, task, session, serverId, record, tool: null };
}

/** May this tool of this server be called now? Asked at every call, and again at its dispatch. */
export function aboutCall(
  view: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
  serverId: string,
  tool: string,
): PolicyQuestion {
  const record = view?.servers.get(serverId) ?? null;
  return { checks: callChecks, view, task, session, serverId, record, tool };
}

/** Which tools of a server that may be used may be called? Asked for each of its list. */
export function aboutTool(
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  tool: string,
): PolicyQuestion {
  return { checks: toolChecks, view: null, task, session, serverId: record.server_id, record, tool };
}

/** The first denial of the walk, or the record that is used. */
export function decide(question: PolicyQuestion): Decision {
  for (const check of question.checks) {
    const reason = check.denies(question);
    if (reason !== null) return deny(reason, check.layer, check.detail(question));
  }
  return { allowed: true, record: question.record as McpServerRecord }; // the walk denies where there is none
}

export function decideCall(
  view: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
  serverId: string,
  tool: string,
): Decision {
  return decide(aboutCall(view, task, session, serverId, tool));
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
