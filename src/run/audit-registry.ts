import type { AuditTrail } from '../audit/event.ts';
import type { RegistryCache } from '../registry/cache.ts';
import type { RegistryChange } from '../registry/snapshot.ts';

/** Ids that one line names; the rest is a number. */
const MAX_IDS = 100;

/**
 * Writes a line for every change of the registry, the records at the start included. It must hear of changes before
 * those whom they stop, so that the trail has the cause before its effects.
 */
export function auditRegistry(cache: RegistryCache, audit: AuditTrail, run: string): void {
  const write = ({ snapshot, upserted, deleted }: RegistryChange) =>
    audit.write(run, {
      event: 'registry.applied',
      revision: snapshot.revision,
      upserted: upserted.slice(0, MAX_IDS),
      deleted: deleted.slice(0, MAX_IDS),
      upserts: upserted.length,
      deletes: deleted.length,
    });
  const snapshot = cache.snapshot();
  if (snapshot !== null) write({ snapshot, upserted: [...snapshot.servers.keys()].sort(), deleted: [] });
  cache.onChange(write);
}
