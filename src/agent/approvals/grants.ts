import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { ApprovalRules } from '../policy/approval-rules.ts';
import { policyHash, sha256, type ToolDefinition } from '../policy/definition-hash.ts';
import type { GrantHandle } from './client.ts';

/** How long a one-time grant may wait for a slot and a connection of its server. */
export const ONCE_GRANT_MS = 10 * 60_000;
/** After this time a session needs a new approval. */
export const SESSION_GRANT_MS = 60 * 60_000;
/** Per guest. The oldest grant is evicted, and its call needs a new approval. */
export const MAX_GRANTS = 256;

/** Why a grant was not accepted: used, expired, or the field it is bound to that differs. */
export type GrantRefusal = 'used' | 'expired' | keyof GrantBinding;

interface Grant {
  readonly binding: GrantBinding;
  readonly expiresAtMs: number;
  /** Grant handle of the registry that holds it; null: held here. */
  readonly handle: GrantHandle | null;
}

export interface GrantClock {
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** Grants of one guest, in memory. */
export class ApprovalGrants {
  readonly #now: () => number;
  readonly #once = new Map<number, Grant>();
  readonly #sessions = new Map<string, Grant>();
  /** Definition of each tool when it was last allowed, to show later changes. */
  readonly #allowed = new Map<string, ToolDefinition>();
  #nextId = 1;

  constructor({ now }: GrantClock) {
    this.#now = now;
  }

  /** Adds a grant for one call. Returns its id. */
  grantOnce(
    binding: GrantBinding,
    definition: ToolDefinition,
    forMs = ONCE_GRANT_MS,
    handle: GrantHandle | null = null,
  ): number {
    const id = this.#nextId++;
    const surplus = keep(this.#once, id, { binding, expiresAtMs: this.#now() + forMs, handle });
    surplus?.handle?.drop('too many unused approvals');
    this.#remember(binding, definition);
    return id;
  }

  /** Adds a grant for all calls of this tool in this session. */
  grantSession(binding: GrantBinding, definition: ToolDefinition, forMs = SESSION_GRANT_MS): void {
    keep(this.#sessions, sessionKey(binding), { binding, expiresAtMs: this.#now() + forMs, handle: null });
    this.#remember(binding, definition);
  }

  /** Uses up a one-time grant. Null: the call is the one it was given for. */
  redeem(id: number, binding: GrantBinding): GrantRefusal | null {
    const grant = this.#once.get(id);
    this.#once.delete(id); // also if it does not match
    // A grant that a registry holds is valid only after it was redeemed there.
    if (grant === undefined || grant.handle?.isRedeemed === false) return 'used';
    return this.#refusal(grant, binding, bindingFields);
  }

  /** Handle by which the grant is redeemed in its registry first; null: it is held here. */
  handleOf(id: number): GrantHandle | null {
    return this.#once.get(id)?.handle ?? null;
  }

  /** Whether the session was allowed to call this tool, whatever the arguments. */
  coversSession(binding: GrantBinding): boolean {
    const key = sessionKey(binding);
    const grant = this.#sessions.get(key);
    if (grant === undefined) return false;
    if (this.#refusal(grant, binding, sessionBindingFields) === null) return true;
    this.#sessions.delete(key);
    return false;
  }

  /** Removes a grant that will not be redeemed. */
  drop(id: number): void {
    const handle = this.handleOf(id);
    this.#once.delete(id);
    handle?.drop('the call was not made');
  }

  lastAllowed(binding: Pick<GrantBinding, 'task' | 'server' | 'tool'>): ToolDefinition | null {
    return this.#allowed.get(toolKey(binding)) ?? null;
  }

  #remember(binding: GrantBinding, definition: ToolDefinition): void {
    keep(this.#allowed, toolKey(binding), definition);
  }

  #refusal(grant: Grant, binding: GrantBinding, fields: readonly (keyof GrantBinding)[]): GrantRefusal | null {
    if (this.#now() >= grant.expiresAtMs) return 'expired';
    return fields.find((field) => grant.binding[field] !== binding[field]) ?? null;
  }
}

const sessionKey = ({ task, run, session, server, tool }: GrantBinding) =>
  JSON.stringify([task, run, session, server, tool]);
const toolKey = ({ task, server, tool }: Pick<GrantBinding, 'task' | 'server' | 'tool'>) =>
  JSON.stringify([task, server, tool]);

/** Adds an entry as the newest; evicts and returns the oldest if there are too many. */
function keep<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): Value | undefined {
  map.delete(key);
  map.set(key, value);
  if (map.size <= MAX_GRANTS) return undefined;
  const [oldest, gone] = map.entries().next().value as [Key, Value];
  map.delete(oldest);
  return gone;
}

/** What a grant is bound to. A session grant is not bound to `ordinal` and `arguments`. */
export interface GrantBinding {
  /** JSON: its name, or null. */
  readonly task: string;
  readonly run: string;
  /** Names the call in its run. */
  readonly ordinal: string;
  /** The same names are used in every run. */
  readonly session: string;
  readonly server: string;
  readonly tool: string;
  /** sha256 of the canonical JSON. */
  readonly arguments: string;
  /** See hashDefinition. */
  readonly definition: string;
  /** The record's revision in the registry, and a hash of every list and rule that decides about the call. */
  readonly policy: string;
}

export const bindingFields = [
  'task',
  'run',
  'ordinal',
  'session',
  'server',
  'tool',
  'arguments',
  'definition',
  'policy',
] as const;

export const sessionBindingFields = bindingFields.filter((field) => field !== 'arguments' && field !== 'ordinal');

/** @throws RangeError for arguments that are nested beyond all measure */
export function hashArguments(args: JsonObject): string {
  return sha256(args);
}

export function policyRevision(
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
  profile: McpProfile | null,
  rules: ApprovalRules,
): string {
  const { approval_policy: approval } = record;
  const lists = policyHash(record, task, session, profile);
  const offers = [task, session].map((layer) => [layer?.resourceLists ?? null, layer?.promptLists ?? null]);
  const decides = { lists, offers, approval, rules } as unknown as JsonValue;
  return `${record.mod_revision}:${sha256(decides)}`;
}
