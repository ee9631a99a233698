import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import { type Denial, deny, EVERY_SERVER, type Exclusion, exclusion, quoted } from './decision.ts';
import { profileOf } from './profile-checks.ts';
import type { RegistryView } from './registry-view.ts';
import { aboutChoice, aboutSelection, aboutServer, decide, denialOf } from './walk.ts';

export interface EffectiveSet {
  /** In the order of their ids, whatever order they were asked for in, so that the same set makes the same prompt. */
  readonly serverIds: readonly string[];
  /** One line for every server that the task's default or the session asked for and did not get. */
  readonly exclusions: readonly Exclusion[];
}

/**
 * platform ∩ profile ∩ task allowed ∩ task's tags ∩ (session request, else task default). `registry` is null before the
 * first snapshot.
 */
export function effectiveSet(registry: RegistryView | null, task: TaskPolicy, session: SessionPolicy): EffectiveSet {
  const defaults = defaultServers(registry, task);
  const wanted = new Set([...defaults, ...(session.serverIds ?? [])]);
  const serverIds: string[] = [];
  const exclusions: Exclusion[] = [];
  for (const serverId of [...wanted].sort(byCodeUnit)) {
    const decision = decide(aboutServer(registry, task, session, serverId));
    if (decision.allowed) serverIds.push(serverId);
    else exclusions.push(exclusion(serverId, null, decision));
  }
  const nothing = wanted.size > 0 ? null : whyNothing(registry, task, session);
  if (nothing !== null) exclusions.push(exclusion(EVERY_SERVER, null, nothing));
  return { serverIds, exclusions };
}

/** The servers of a session that asks for none; of a task that lists none, those that it chooses from the registry. */
export function defaultServers(view: RegistryView | null, task: TaskPolicy): readonly string[] {
  const listed = task.defaultServerIds ?? task.allowedServerIds;
  if (listed !== null) return listed;
  if (view === null || view.stale) return [];
  const chosen = [...view.servers.values()].filter((record) => denialOf(aboutSelection(view, task, record)) === null);
  // One that a profile names and the registry lacks is worth a line of the decision log.
  const absent = (profileOf(view, task)?.server_ids ?? []).filter((id) => !view.servers.has(id));
  return [...chosen.map(({ server_id }) => server_id), ...absent];
}

/** Null where the task listed no servers on purpose, or the session asked for none. */
function whyNothing(view: RegistryView | null, task: TaskPolicy, session: SessionPolicy): Denial | null {
  if ((task.defaultServerIds ?? task.allowedServerIds) !== null || session.serverIds !== null) return null;
  const denial = denialOf(aboutChoice(view, task, session));
  if (denial !== null) return denial;
  if (task.profile === null) {
    return deny('not_tagged', 'task', "no server in the registry has one of the tags in the task's mcp.server_tags");
  }
  const name = quoted(task.profile.name);
  return deny(
    'not_in_profile',
    'profile',
    `no server in the registry matches the profile ${name} and the task's mcp.profile_overrides`,
  );
}

/**
 * Whether a run lacks a server through no choice of its task or session. What the author of the task or the guest
 * excluded is no loss, but a selection by tags or profile that finds nothing is one.
 */
export function isLoss({ serverId, tool, reason, layer }: Exclusion): boolean {
  if (tool !== null) return reason === 'pin_mismatch';
  if (layer === 'session' || reason === 'disabled') return false;
  return layer !== 'task' || serverId === EVERY_SERVER;
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
