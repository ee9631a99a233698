import { type ActiveStops, appliesToNode, type StoppableRun, stopOfRun } from '../agent/policy/stops.ts';
import type { KindCache } from '../registry-client/kind-cache.ts';
import type { StopRecord } from '../server/records/stop.ts';

const none: ActiveStops = new Map();

/** The active stops of the registry as they concern the runs of one node. A node without a registry has none. */
export class NodeStops {
  readonly #cache: Pick<KindCache<StopRecord>, 'snapshot' | 'onChange'> | null;
  readonly #nodeId: string;

  constructor(cache: Pick<KindCache<StopRecord>, 'snapshot' | 'onChange'> | null, nodeId: string) {
    this.#cache = cache;
    this.#nodeId = nodeId;
  }

  get active(): ActiveStops {
    return this.#cache?.snapshot()?.records ?? none;
  }

  /** The strongest stop that applies to a run here; null: none does. */
  of(run: StoppableRun): StopRecord | null {
    const { active } = this;
    return active.size === 0 ? null : stopOfRun(active, run, this.#nodeId);
  }

  /** Whether no run may start here, whatever its task is. Runs that are to be cancelled have to be claimed for it. */
  get isHeld(): boolean {
    const stops = [...this.active.values()];
    const holds = (stop: StopRecord) => stop.scope === 'all' || appliesToNode(stop, this.#nodeId);
    return stops.some(holds) && !this.hasCancel;
  }

  get hasCancel(): boolean {
    return [...this.active.values()].some(({ effect }) => effect === 'cancel');
  }

  /** Whether the stop was lifted; false as long as the node does not know the stops. */
  isLifted(id: string): boolean {
    const snapshot = this.#cache?.snapshot() ?? null;
    return this.#cache === null || (snapshot !== null && !snapshot.records.has(id));
  }

  /** Called after every change. Returns the way to stop it. */
  onChange(listener: () => void): () => void {
    return this.#cache?.onChange(listener) ?? (() => {});
  }
}

export const noStops = new NodeStops(null, '');
