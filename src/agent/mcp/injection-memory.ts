import type { SessionPolicy } from '../../runtime/port/policy-layers.ts';
import type { Exclusion } from '../policy/decision.ts';
import { Injection } from './injection.ts';
import type { NameClaims } from './name-claims.ts';
import type { ServerTools } from './session-tools.ts';

/** What was made for a send, and from what. */
interface Kept {
  readonly policy: SessionPolicy;
  readonly listings: readonly ServerTools[];
  readonly guestTools: ReadonlySet<string>;
  readonly claims: NameClaims;
  readonly injection: Injection;
  /** Tools whose name was taken, by the place of their server. */
  readonly collisions: readonly (readonly Exclusion[])[];
}

/** Sessions of one guest that differ in policy or tools; the one used longest ago makes way. */
const MAX_KEPT = 8;

/** Injections of earlier sends: while nothing changed, a send gets what the one before got, and nothing is named anew. */
export class InjectionMemory {
  readonly #kept: Kept[] = [];

  find(
    policy: SessionPolicy,
    listings: readonly ServerTools[],
    guestTools: ReadonlySet<string>,
    claims: NameClaims,
  ): Pick<Kept, 'injection' | 'collisions'> {
    const at = this.#kept.findIndex((kept) => kept.claims === claims && isSame(kept, policy, listings, guestTools));
    const [found = make(policy, listings, guestTools, claims)] = at < 0 ? [] : this.#kept.splice(at, 1);
    this.#kept.unshift(found);
    if (this.#kept.length > MAX_KEPT) this.#kept.pop();
    return found;
  }
}

function make(
  policy: SessionPolicy,
  listings: readonly ServerTools[],
  guestTools: ReadonlySet<string>,
  claims: NameClaims,
): Kept {
  const injection = new Injection(policy, claims);
  const collisions = listings.map((listing) => injection.add(listing, guestTools));
  return { policy, listings, guestTools: new Set(guestTools), claims, injection, collisions };
}

/** Lists that policy filtered are the same objects as long as neither the server nor the policy changed. */
function isSame(
  kept: Kept,
  policy: SessionPolicy,
  listings: readonly ServerTools[],
  guestTools: ReadonlySet<string>,
): boolean {
  return (
    kept.policy.toolNaming === policy.toolNaming &&
    kept.policy.inventory === policy.inventory &&
    kept.policy.resourceTools === policy.resourceTools &&
    kept.listings.length === listings.length &&
    listings.every((listing, at) => isSameListing(listing, kept.listings[at] as ServerTools)) &&
    kept.guestTools.size === guestTools.size &&
    kept.guestTools.isSubsetOf(guestTools)
  );
}

const isSameListing = (one: ServerTools, other: ServerTools): boolean =>
  one.record === other.record &&
  one.tools === other.tools &&
  one.exclusions === other.exclusions &&
  one.instructions === other.instructions;
