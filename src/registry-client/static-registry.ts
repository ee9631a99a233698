import type { RegistryView } from '../agent/policy/registry-view.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import { serverKind } from '../server/records/server.ts';
import { type RegistrySnapshot, restoreSnapshot } from './snapshot.ts';

/** Records that a program brings itself: one snapshot that never changes. */
export class StaticRegistry {
  readonly #snapshot: RegistrySnapshot;

  constructor(servers: readonly McpServerRecord[]) {
    this.#snapshot = restoreSnapshot(serverKind, null, { epoch: '', revision: 1, records: servers }).snapshot;
  }

  snapshot(): RegistrySnapshot {
    return this.#snapshot;
  }

  view(): RegistryView {
    return { servers: this.#snapshot.records, stale: false, profiles: null };
  }

  onPolicyChange(): () => void {
    return () => {};
  }
}
