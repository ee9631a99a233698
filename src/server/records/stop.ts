import type { StoreStamps } from './record-kind.ts';

/** What a stop applies to. */
export const stopScopes = ['all', 'namespace', 'task', 'server', 'node'] as const;
export type StopScope = (typeof stopScopes)[number];

/**
 * What a stop does, from weak to strong. `pause`: no run starts. `drain`: running runs return to the queue as well.
 * `stop`: no run starts, running runs are parked, and calls are refused. `cancel`: the same, and runs are cancelled.
 */
export const stopEffects = ['pause', 'drain', 'stop', 'cancel'] as const;
export type StopEffect = (typeof stopEffects)[number];

/** An operator's decision that something must not run; active as long as the record exists. */
export interface StopRecord extends StoreStamps {
  readonly stop_id: string;
  readonly scope: StopScope;
  /** Name of the namespace, the task (`NAMESPACE/NAME`), the server or the node; empty for `all`. */
  readonly name: string;
  readonly effect: StopEffect;
  readonly reason: string;
  readonly created_by: string;
  /** The namespace that its creator is limited to, or `*`. A caller limited to another namespace cannot lift it. */
  readonly authority: string;
  readonly created_at_ms: number;
}

/**
 * `active`: stops by users of all namespaces, `activePerNamespace`: by users of one namespace. Pauses and drains are counted
 * apart from stops: pauses by operators must not use up the stops that an admin needs in an emergency.
 */
export const stopLimits = { reasonChars: 500, active: 1_000, activePerNamespace: 100 } as const;

/** Effects that a scope can have: a server has no runs, and a node does not decide about calls. */
export const effectsOf: Readonly<Record<StopScope, readonly StopEffect[]>> = {
  all: ['stop', 'cancel'],
  namespace: ['stop', 'cancel'],
  task: ['pause', 'stop', 'cancel'],
  server: ['stop'],
  node: ['pause', 'drain'],
};

/** The namespace that a stop belongs to; null: all namespaces share it. */
export function namespaceOfStop({ scope, name }: Pick<StopRecord, 'scope' | 'name'>): string | null {
  if (scope === 'namespace') return name;
  return scope === 'task' ? (name.split('/', 1)[0] ?? '') : null;
}

/** What a stop applies to, as users write it. */
export function stopTarget({ scope, name }: Pick<StopRecord, 'scope' | 'name'>): string {
  return scope === 'all' ? 'everything' : `${scope} ${name}`;
}
