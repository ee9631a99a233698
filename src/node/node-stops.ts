import { type ActiveStops, appliesToNode, type StoppableRun, stopOfRun } from '../agent/policy/stops.ts';
import type { KindCache } from '../registry-client/kind-cache.ts';
import type { StopRecord } from '../server/records/stop.ts';

const none: ActiveStops = new Map();

/** The active stops of the registry that apply to the runs of one node. A node without a registry has none. */
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

  /** The strongest stop that applies to the run; null: none. */
  of(run: StoppableRun): StopRecord | null {
    const { active } = this;
    return active.size === 0 ? null : stopOfRun(active, run, this.#nodeId);
  }

  /** Whether no run may be claimed. A cancelling stop needs claims, because its runs are claimed to end. */
  get isHeld(): boolean {
    const stops = [...this.active.values()];
    const holds = (stop: StopRecord) => stop.scope === 'all' || appliesToNode(stop, this.#nodeId);
    return stops.some(holds) && !this.hasCancel;
  }

  get hasCancel(): boolean {
    return [...this.active.values()].some(({ effect }) => effect === 'cancel');
  }

  /** Whether the stop was lifted; false until the node has the stops. */
  isLifted(id: string): boolean {
    const snapshot = this.#cache?.snapshot() ?? null;
    return this.#cache === null || (snapshot !== null && !snapshot.records.has(id));
  }

  /** Notifies after every change. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    return this.#cache?.onChange(listener) ?? (() => {});
  }
}

export const noStops = new NodeStops(null, '');
