import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { ApprovalRules } from '../policy/approval-rules.ts';
import { policyHash, sha256, type ToolDefinition } from '../policy/definition-hash.ts';
import type { GrantHandle } from './client.ts';

/** A one-time grant waits for a place at its server and for a connection, never longer than this. */
export const ONCE_GRANT_MS = 10 * 60_000;
/** After this time a session is asked again, whatever it was allowed. */
export const SESSION_GRANT_MS = 60 * 60_000;
/** Of one guest. Beyond it the oldest goes, and is asked for again. */
export const MAX_GRANTS = 256;

/** Why a grant was not accepted: it is used up, too old, or one thing it was bound to is another now. */
export type GrantRefusal = 'used' | 'expired' | keyof GrantBinding;

interface Grant {
  readonly binding: GrantBinding;
  readonly expiresAtMs: number;
  /** Where it is kept, and has to be taken from before it holds; null: here. */
  readonly handle: GrantHandle | null;
}

export interface GrantClock {
  /** Milliseconds; only differences matter, so a clock that nobody can set back. */
  readonly now: () => number;
}

/** What was allowed. Lives in memory and ends with the guest. */
export class ApprovalGrants {
  readonly #now: () => number;
  readonly #once = new Map<number, Grant>();
  readonly #sessions = new Map<string, Grant>();
  /** The definition that was last allowed of each tool, to show what became of it. */
  readonly #allowed = new Map<string, ToolDefinition>();
  #nextId = 1;

  constructor({ now }: GrantClock) {
    this.#now = now;
  }

  /** Good for one call. Returns what to redeem it by. */
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

  /** Good for all calls of this tool in this session. */
  grantSession(binding: GrantBinding, definition: ToolDefinition, forMs = SESSION_GRANT_MS): void {
    keep(this.#sessions, sessionKey(binding), { binding, expiresAtMs: this.#now() + forMs, handle: null });
    this.#remember(binding, definition);
  }

  /** Uses up a one-time grant, if everything is still as it was when it was given. */
  redeem(id: number, binding: GrantBinding): GrantRefusal | null {
    const grant = this.#once.get(id);
    this.#once.delete(id); // one that does not fit is not tried again
    // One that is kept elsewhere is nobody's before it was taken there.
    if (grant === undefined || grant.handle?.isRedeemed === false) return 'used';
    return this.#refusal(grant, binding, bindingFields);
  }

  /** Where the grant has to be taken from before it is redeemed; null: nowhere. */
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

  /** A grant that nobody will redeem. */
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

/** Puts an entry at the end and lets the oldest go where there are too many: that is what it gives. */
function keep<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): Value | undefined {
  map.delete(key);
  map.set(key, value);
  if (map.size <= MAX_GRANTS) return undefined;
  const [oldest, gone] = map.entries().next().value as [Key, Value];
  map.delete(oldest);
  return gone;
}

/** What a grant holds for. One that was given for a session is bound to no single call: to all of it but ordinal and arguments. */
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
