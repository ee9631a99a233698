import { bindingFields, type GrantBinding } from './binding.ts';
import type { ToolDefinition } from './decider.ts';

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
  grantOnce(binding: GrantBinding, definition: ToolDefinition, forMs = ONCE_GRANT_MS): number {
    const id = this.#nextId++;
    keep(this.#once, id, { binding, expiresAtMs: this.#now() + forMs });
    this.#remember(binding, definition);
    return id;
  }

  /** Good for all calls of this tool in this session. */
  grantSession(binding: GrantBinding, definition: ToolDefinition, forMs = SESSION_GRANT_MS): void {
    keep(this.#sessions, sessionKey(binding), { binding, expiresAtMs: this.#now() + forMs });
    this.#remember(binding, definition);
  }

  /** Uses up a one-time grant, if everything is still as it was when it was given. */
  redeem(id: number, binding: GrantBinding): GrantRefusal | null {
    const grant = this.#once.get(id);
    this.#once.delete(id); // one that does not fit is not tried again
    return grant === undefined ? 'used' : this.#refusal(grant, binding, bindingFields);
  }

  /** Whether the session was allowed to call this tool, whatever the arguments. */
  coversSession(binding: GrantBinding): boolean {
    const key = sessionKey(binding);
    const grant = this.#sessions.get(key);
    if (grant === undefined) return false;
    if (this.#refusal(grant, binding, withoutArguments) === null) return true;
    this.#sessions.delete(key);
    return false;
  }

  /** A grant that nobody will redeem. */
  drop(id: number): void {
    this.#once.delete(id);
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

const withoutArguments = bindingFields.filter((field) => field !== 'arguments');

const sessionKey = ({ task, session, server, tool }: GrantBinding) => JSON.stringify([task, session, server, tool]);
const toolKey = ({ task, server, tool }: Pick<GrantBinding, 'task' | 'server' | 'tool'>) =>
  JSON.stringify([task, server, tool]);

/** Puts an entry at the end and lets the oldest go where there are too many. */
function keep<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > MAX_GRANTS) map.delete(map.keys().next().value as Key);
}
