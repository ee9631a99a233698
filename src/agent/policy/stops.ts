import { type StopEffect, type StopRecord, stopEffects } from '../../server/records/stop.ts';

/** Active stops by id. */
export type ActiveStops = ReadonlyMap<string, StopRecord>;

/** The fields of a run that decide whether a stop applies to it. */
export interface StoppableRun {
  readonly namespace: string;
  readonly task: string;
}

/** The stop that refuses a call of this task to this server; null: none does. */
export function stopOfCall(
  stops: ActiveStops,
  namespace: string,
  task: string | null,
  serverId: string,
): StopRecord | null {
  for (const stop of stops.values()) {
    if (!refusesCalls(stop.effect)) continue;
    if (stop.scope === 'server' ? stop.name === serverId : appliesToTask(stop, namespace, task)) return stop;
  }
  return null;
}

/** The strongest stop that applies to a run on this node; null: none does. */
export function stopOfRun(stops: ActiveStops, { namespace, task }: StoppableRun, nodeId: string): StopRecord | null {
  let found: StopRecord | null = null;
  for (const stop of stops.values()) {
    const applies = stop.scope === 'node' ? appliesToNode(stop, nodeId) : appliesToTask(stop, namespace, task);
    if (applies && (found === null || strength(stop) > strength(found))) found = stop;
  }
  return found;
}

/** Whether the node, or the machine that it is on, is named. */
export function appliesToNode({ scope, name }: Pick<StopRecord, 'scope' | 'name'>, nodeId: string): boolean {
  return scope === 'node' && (name === nodeId || name === nodeId.split(':', 1)[0]);
}

function appliesToTask({ scope, name }: StopRecord, namespace: string, task: string | null): boolean {
  if (scope === 'all') return true;
  if (scope === 'namespace') return name === namespace;
  return scope === 'task' && name === `${namespace}/${task}`;
}

const refusesCalls = (effect: StopEffect) => effect === 'stop' || effect === 'cancel';
const strength = ({ effect }: StopRecord) => stopEffects.indexOf(effect);

/** Why a run or a call does not proceed, for users. */
export function stopText({ effect, reason }: StopRecord): string {
  const words: Readonly<Record<StopEffect, string>> = {
    pause: 'paused',
    drain: 'drained',
    stop: 'stopped',
    cancel: 'stopped',
  };
  return `${words[effect]}: ${reason}`;
}
