import type { CallKind, SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import {
  type Decision,
  type Denial,
  deny,
  EVERY_SERVER,
  type Exclusion,
  exclusion,
  quoted,
  type RegistryView,
} from './decision.ts';
import type { ToolDefinition } from './definition-hash.ts';
import { profileOf } from './record-checks.ts';
import { aboutChoice, aboutSelection, aboutServer, decide, decideCall, denialOf } from './walk.ts';

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

interface Allowed {
  readonly session: SessionPolicy | null;
  readonly serverId: string;
  readonly tool: string;
  readonly kind: CallKind | undefined;
  readonly decision: Decision;
}

/** Cached decisions; when there are more, the cache is cleared. */
const MAX_KEPT = 1_000;

/**
 * Decides about the calls of one task and caches decisions that allow a call. Servers, profiles, stops, sessions and
 * definitions are immutable, so a decision is valid as long as it is about the same objects.
 */
export class AllowedCalls {
  readonly #task: TaskPolicy;
  /** By the definition, where that is known, else by the name. */
  readonly #kept = new Map<ToolDefinition | string, Allowed>();
  /** What all that is kept was decided by. */
  #servers: RegistryView['servers'] | null = null;
  #profiles: NonNullable<RegistryView['profiles']>['byName'] | null = null;
  #stops: RegistryView['stops'];

  constructor(task: TaskPolicy) {
    this.#task = task;
  }

  decide(
    view: RegistryView | null,
    session: SessionPolicy | null,
    serverId: string,
    tool: string,
    definition: ToolDefinition | null,
    kind: CallKind | undefined,
  ): Decision {
    const key = definition ?? tool;
    const known = this.#isSame(view) ? this.#kept.get(key) : undefined;
    if (
      known !== undefined &&
      known.session === session &&
      known.serverId === serverId &&
      known.tool === tool &&
      known.kind === kind
    ) {
      return known.decision;
    }
    const decision = decideCall(view, this.#task, session, serverId, tool, definition, kind);
    if (decision.allowed) this.#keep(key, { session, serverId, tool, kind, decision });
    return decision;
  }

  /** Whether cached decisions are valid. They are discarded when the servers, the profiles or the stops changed. */
  #isSame(view: RegistryView | null): boolean {
    // Too old is a matter of the moment.
    if (view === null || view.stale || view.profiles?.stale) return false;
    const profiles = view.profiles?.byName ?? null;
    if (view.servers === this.#servers && profiles === this.#profiles && view.stops === this.#stops) return true;
    this.#kept.clear();
    this.#servers = view.servers;
    this.#profiles = profiles;
    this.#stops = view.stops;
    return false;
  }

  #keep(key: ToolDefinition | string, allowed: Allowed): void {
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
    this.#kept.set(key, allowed);
  }
}
