import type { CallKind, SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { Decision } from './decision.ts';
import type { ToolDefinition } from './definition-hash.ts';
import type { RegistryView } from './registry-view.ts';
import { decideCall } from './walk.ts';

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
