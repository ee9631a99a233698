import { Listeners } from '../../src/base/listeners.ts';
import { NodeStops } from '../../src/node/node-stops.ts';
import type { RegistryChange } from '../../src/registry-client/snapshot.ts';
import type { StopEffect, StopRecord, StopScope } from '../../src/server/records/stop.ts';

export const NODE_ID = 'worker-3:n1';

export function sampleStop(scope: StopScope, name: string, effect: StopEffect, stop_id = 'aaaa0001'): StopRecord {
  return {
    ...{ stop_id, scope, name, effect, reason: 'incident 12', created_by: 'alice', authority: '*' },
    ...{ created_at_ms: 1, updated_at_ms: 1, mod_revision: 1 },
  };
}

/** Stops as the cache of a node has them, set by the test. */
export class FakeStops {
  readonly #listeners = new Listeners<RegistryChange<StopRecord>>();
  #records: ReadonlyMap<string, StopRecord> = new Map();
  #revision = 0;
  readonly stops = new NodeStops(
    {
      snapshot: () => ({ epoch: 'e', revision: this.#revision, records: this.#records }),
      onChange: (listener) => this.#listeners.add(listener),
    },
    NODE_ID,
  );

  set(...stops: readonly StopRecord[]): void {
    this.#records = new Map(stops.map((stop) => [stop.stop_id, stop]));
    this.#revision += 1;
    const snapshot = { epoch: 'e', revision: this.#revision, records: this.#records };
    this.#listeners.notify({ snapshot, upserted: [...this.#records.keys()], deleted: [] });
  }
}
