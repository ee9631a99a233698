import type { RegistryView } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type RegistrySnapshot, restoreSnapshot } from './snapshot.ts';

/** Records that a program brings itself: one snapshot that never changes. */
export class StaticRegistry {
  readonly #snapshot: RegistrySnapshot;

  constructor(servers: readonly McpServerRecord[]) {
    this.#snapshot = restoreSnapshot(null, { epoch: '', revision: 1, servers }).snapshot;
  }

  snapshot(): RegistrySnapshot {
    return this.#snapshot;
  }

  view(): RegistryView {
    return { servers: this.#snapshot.servers, stale: false };
  }

  onChange(): () => void {
    return () => {};
  }
}
