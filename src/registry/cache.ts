import type { RegistryView } from '../protocol/policy-layers.ts';
import type { McpProfile } from '../protocol/profile.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { serverKind } from '../protocol/server-kind.ts';
import { KindCache, type KindCacheOptions } from './kind-cache.ts';

export interface RegistryCacheOptions extends Omit<KindCacheOptions<McpServerRecord>, 'kind'> {
  /** Started and closed with the servers. @default null, nobody asks for profiles */
  readonly profiles?: KindCache<McpProfile> | null;
}

/** The node's copy of the registry, as policy is asked about it: its servers, and its profiles where they are needed. */
export class RegistryCache extends KindCache<McpServerRecord> {
  readonly profiles: KindCache<McpProfile> | null;

  constructor({ profiles = null, ...options }: RegistryCacheOptions) {
    super({ ...options, kind: serverKind });
    this.profiles = profiles;
  }

  override start(): void {
    super.start();
    this.profiles?.start();
  }

  /** What policy is to be asked about: null before the first snapshot. */
  view(): RegistryView | null {
    const snapshot = this.snapshot();
    if (snapshot === null) return null;
    const profiles = this.profiles?.snapshot();
    return {
      servers: snapshot.records,
      stale: this.isStale,
      profiles: profiles ? { byName: profiles.records, stale: this.profiles?.isStale ?? true } : null,
    };
  }

  /** Called whenever policy may decide otherwise than before. Returns the way to stop it. */
  onPolicyChange(listener: () => void): () => void {
    const stops = [this.onChange(() => listener()), this.profiles?.onChange(() => listener())];
    return () => {
      for (const stop of stops) stop?.();
    };
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.profiles?.close()]);
  }
}
