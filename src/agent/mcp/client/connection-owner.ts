import type { ConnectionScope } from '../../../server/records/record.ts';
import type { CallQueue } from './call-queue.ts';
import type { HomePlace } from './process/directories.ts';
import type { ServerEntry, ServerHealth } from './server-entry.ts';

/** Whose calls they are: the `connection_scope` of a record says with whom they share its connection. */
export interface PoolUser {
  /** No two tasks have the same. */
  readonly task: string;
  /** Where homes of this task's servers live on. */
  readonly stateDir: string;
  readonly run: string;
}

/** A node, a task or a run: nobody else uses these connections, nor the homes of their processes. */
export interface ConnectionOwner {
  readonly home: HomePlace;
  /** Places for calls in flight, at all servers together; a run has those of its task. */
  readonly places: CallQueue;
  readonly entries: Map<string, ServerEntry>;
}

/** The key of the owner; whoever uses the pool without a name is the node. */
function ownerKey(scope: ConnectionScope, user: PoolUser | null): string {
  if (user === null || scope === 'node') return 'node';
  return scope === 'task' ? taskKey(user.task) : runKey(user.run);
}

export const taskKey = (task: string) => `task ${task}`;
export const runKey = (run: string) => `run ${run}`;

/** All who own connections, by their keys. */
export class ConnectionOwners {
  readonly #stateDir: string;
  readonly #newPlaces: () => CallQueue;
  readonly #owners = new Map<string, ConnectionOwner>();

  /** `stateDir`: of servers that the whole node shares. */
  constructor(stateDir: string, newPlaces: () => CallQueue) {
    this.#stateDir = stateDir;
    this.#newPlaces = newPlaces;
  }

  of(scope: ConnectionScope, user: PoolUser | null): ConnectionOwner {
    const key = ownerKey(scope, user);
    const known = this.#owners.get(key);
    if (known !== undefined) return known;
    const made = { ...this.#make(key, user), entries: new Map<string, ServerEntry>() };
    this.#owners.set(key, made);
    return made;
  }

  all(): ConnectionOwner[] {
    return [...this.#owners.values()];
  }

  keys(): string[] {
    return [...this.#owners.keys()];
  }

  entries(): ServerEntry[] {
    return this.all().flatMap(({ entries }) => [...entries.values()]);
  }

  /** What it had; nobody finds it here any more. */
  take(key: string): ServerEntry[] {
    const owner = this.#owners.get(key);
    this.#owners.delete(key);
    return [...(owner?.entries.values() ?? [])];
  }

  /** Those of runs are the places of their tasks. */
  places(): Set<CallQueue> {
    return new Set(this.all().map(({ places }) => places));
  }

  #make(key: string, user: PoolUser | null): Omit<ConnectionOwner, 'entries'> {
    if (user === null || key === 'node') return { home: { stateDir: this.#stateDir }, places: this.#newPlaces() };
    if (key === taskKey(user.task)) return { home: { stateDir: user.stateDir }, places: this.#newPlaces() };
    return { home: { run: user.run }, places: this.of('task', user).places };
  }
}

/** A server as it was found where it was used last; what was got back counts wherever that was. */
export function healthByServer(entries: Iterable<ServerEntry>): ServerHealth[] {
  const last = new Map<string, { readonly entry: ServerEntry; readonly reconnects: number }>();
  for (const entry of entries) {
    const { serverId, reconnects } = entry.health;
    const known = last.get(serverId);
    const latest = known === undefined || entry.lastUsedMs >= known.entry.lastUsedMs ? entry : known.entry;
    last.set(serverId, { entry: latest, reconnects: reconnects + (known?.reconnects ?? 0) });
  }
  return [...last.values()].map(({ entry, reconnects }) => ({ ...entry.health, reconnects }));
}

/** Retains the error of a server until the server lists its tools again, also after its connection closed. */
export function withFailures(health: readonly ServerHealth[], failed: ReadonlyMap<string, string>): ServerHealth[] {
  const without = { state: 'down', reconnects: 0, connectedAtMs: null, toolCount: null, latencyMs: null } as const;
  const known = health.map((server) => {
    const lastError = failed.get(server.serverId);
    if (lastError === undefined) return server;
    return { ...server, lastError, state: server.state === 'connected' ? ('degraded' as const) : server.state };
  });
  const ids = new Set(health.map(({ serverId }) => serverId));
  const gone = [...failed].filter(([serverId]) => !ids.has(serverId));
  return [...known, ...gone.map(([serverId, lastError]) => ({ ...without, serverId, lastError }))];
}
