import type { RegistryView, SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import { type Exclusion, exclusion } from './decision.ts';
import { aboutServer, decide } from './walk.ts';

export interface EffectiveSet {
  /** In the order of their ids, whatever order they were asked for in, so that the same set makes the same prompt. */
  readonly serverIds: readonly string[];
  /** One line for every server that the task's default or the session asked for and did not get. */
  readonly exclusions: readonly Exclusion[];
}

/** platform ∩ task allowed ∩ (session request, else task default). `registry` is null before the first snapshot. */
export function effectiveSet(registry: RegistryView | null, task: TaskPolicy, session: SessionPolicy): EffectiveSet {
  const wanted = new Set([...task.defaultServerIds, ...(session.serverIds ?? [])]);
  const serverIds: string[] = [];
  const exclusions: Exclusion[] = [];
  for (const serverId of [...wanted].sort(byCodeUnit)) {
    const decision = decide(aboutServer(registry, task, session, serverId));
    if (decision.allowed) serverIds.push(serverId);
    else exclusions.push(exclusion(serverId, null, decision));
  }
  return { serverIds, exclusions };
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
