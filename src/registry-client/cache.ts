import type { RegistryView } from '../agent/policy/decision.ts';
import type { McpProfile } from '../server/records/profile.ts';
import { type McpServerRecord, serverKind } from '../server/records/server.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { KindCache, type KindCacheOptions } from './kind-cache.ts';
import { type RegistrySnapshot, restoreSnapshot } from './snapshot.ts';

export interface RegistryCacheOptions extends Omit<KindCacheOptions<McpServerRecord>, 'kind'> {
  /** Started and closed with the servers. @default null, profiles are not used */
  readonly profiles?: KindCache<McpProfile> | null;
  /** The active stops; a snapshot is complete only with them. @default null: the registry has no stops */
  readonly stops?: KindCache<StopRecord> | null;
}

/** The node's copy of the registry for policy: servers, and profiles and stops if they are used. */
export class RegistryCache extends KindCache<McpServerRecord> {
  readonly profiles: KindCache<McpProfile> | null;
  readonly stops: KindCache<StopRecord> | null;

  constructor({ profiles = null, stops = null, ...options }: RegistryCacheOptions) {
    super({ ...options, kind: serverKind });
    this.profiles = profiles;
    this.stops = stops;
  }

  override start(): void {
    this.stops?.start();
    super.start();
    this.profiles?.start();
  }

  override async ready(deadlineMs: number): Promise<boolean> {
    const [hasServers, hasStops] = await Promise.all([super.ready(deadlineMs), this.stops?.ready(deadlineMs) ?? true]);
    return hasServers && hasStops;
  }

  override useSaved(): number | null {
    if (this.stops !== null && this.stops.snapshot() === null && this.stops.useSaved() === null) return null;
    return this.snapshot() === null ? super.useSaved() : this.status().ageMs;
  }

  /** The input of policy; null before the first snapshot. */
  view(): RegistryView | null {
    const snapshot = this.snapshot();
    const stops = this.stops?.snapshot();
    if (snapshot === null || stops === null) return null;
    const profiles = this.profiles?.snapshot();
    return {
      servers: snapshot.records,
      stale: this.isStale || (this.stops?.isStale ?? false),
      profiles: profiles ? { byName: profiles.records, stale: this.profiles?.isStale ?? true } : null,
      ...(stops === undefined ? {} : { stops: stops.records }),
    };
  }

  /** Called on every change that may change a policy decision. Returns a function that removes the listener. */
  onPolicyChange(listener: () => void): () => void {
    const stops = [this, this.profiles, this.stops].map((kind) => kind?.onChange(() => listener()));
    return () => {
      for (const stop of stops) stop?.();
    };
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.profiles?.close(), this.stops?.close()]);
  }
}

/** Servers that the program itself provides: one snapshot that never changes. */
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
