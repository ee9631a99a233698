import type { CallKind } from '../protocol/call-kind.ts';
import type { RegistryView, SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { Decision } from './decision.ts';
import type { ToolDefinition } from './definition-hash.ts';
import { decideCall } from './walk.ts';

interface Allowed {
  readonly session: SessionPolicy | null;
  readonly serverId: string;
  readonly tool: string;
  readonly kind: CallKind | undefined;
  readonly decision: Decision;
}

/** Of tools that are called in turns; when there are more, all are asked about anew. */
const MAX_KEPT = 1_000;

/**
 * What policy says of the calls of one task. A yes is kept for as long as everything that it depends on is the same: the
 * registry, the profiles, the session, the definition are values that never change, so the same object is the same policy.
 */
export class AllowedCalls {
  readonly #task: TaskPolicy;
  /** By the definition, where that is known, else by the name. */
  readonly #kept = new Map<ToolDefinition | string, Allowed>();
  /** What all that is kept was decided by. */
  #servers: RegistryView['servers'] | null = null;
  #profiles: NonNullable<RegistryView['profiles']>['byName'] | null = null;

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

  /** Whether what is kept counts; it is thrown away where the registry or its profiles are others. */
  #isSame(view: RegistryView | null): boolean {
    // Too old is a matter of the moment.
    if (view === null || view.stale || view.profiles?.stale) return false;
    const profiles = view.profiles?.byName ?? null;
    if (view.servers === this.#servers && profiles === this.#profiles) return true;
    this.#kept.clear();
    this.#servers = view.servers;
    this.#profiles = profiles;
    return false;
  }

  #keep(key: ToolDefinition | string, allowed: Allowed): void {
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
    this.#kept.set(key, allowed);
  }
}
