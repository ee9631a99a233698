import type { RegistryCache } from '../../src/registry-client/cache.ts';
import type { RegistryStatus } from '../../src/registry-client/kind-cache.ts';

/** Resolves when the cache is at `revision` or later. The test's own time limit ends the wait. */
export function untilRevision(cache: RegistryCache, revision: number): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if ((cache.status().revision ?? -1) < revision) return;
      forget();
      resolve();
    };
    const forget = cache.onChange(look);
    look();
  });
}

/** Resolves when the status is as wanted, with that status. */
export function untilStatus(
  cache: RegistryCache,
  wanted: (status: RegistryStatus) => boolean,
): Promise<RegistryStatus> {
  return new Promise((resolve) => {
    const look = () => {
      const status = cache.status();
      if (!wanted(status)) return;
      for (const forget of forgets) forget();
      resolve(status);
    };
    const forgets = [cache.onStatus(look), cache.onChange(look)];
    look();
  });
}
