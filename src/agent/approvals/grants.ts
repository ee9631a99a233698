import type { ToolDefinition } from '../policy/definition-hash.ts';
import { bindingFields, type GrantBinding, sessionBindingFields } from './binding.ts';
import type { GrantTicket } from './desk.ts';

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
  readonly ticket: GrantTicket | null;
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
    ticket: GrantTicket | null = null,
  ): number {
    const id = this.#nextId++;
    const surplus = keep(this.#once, id, { binding, expiresAtMs: this.#now() + forMs, ticket });
    surplus?.ticket?.drop('too many unused approvals');
    this.#remember(binding, definition);
    return id;
  }

  /** Good for all calls of this tool in this session. */
  grantSession(binding: GrantBinding, definition: ToolDefinition, forMs = SESSION_GRANT_MS): void {
    keep(this.#sessions, sessionKey(binding), { binding, expiresAtMs: this.#now() + forMs, ticket: null });
    this.#remember(binding, definition);
  }

  /** Uses up a one-time grant, if everything is still as it was when it was given. */
  redeem(id: number, binding: GrantBinding): GrantRefusal | null {
    const grant = this.#once.get(id);
    this.#once.delete(id); // one that does not fit is not tried again
    // One that is kept elsewhere is nobody's before it was taken there.
    if (grant === undefined || grant.ticket?.isClaimed === false) return 'used';
    return this.#refusal(grant, binding, bindingFields);
  }

  /** Where the grant has to be taken from before it is redeemed; null: nowhere. */
  ticketOf(id: number): GrantTicket | null {
    return this.#once.get(id)?.ticket ?? null;
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
    const ticket = this.ticketOf(id);
    this.#once.delete(id);
    ticket?.drop('the call was not made');
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
