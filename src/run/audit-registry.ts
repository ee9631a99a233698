import type { RegistryStatus } from '../registry-client/kind-cache.ts';
import type { RegistryChange } from '../registry-client/snapshot.ts';
import type { AuditSink } from '../server/audit/event.ts';
import type { McpProfile } from '../server/records/profile.ts';

/** Ids that one line names; the rest is a number. */
const MAX_IDS = 100;

/** Writes a line for a change of the registry; the records at the start of a run are one too. */
export function auditRegistry(change: RegistryChange, audit: AuditSink, run: string): void {
  audit.write(run, { event: 'registry.applied', ...told(change) });
}

/** The same for the profiles of a task that names one. */
export function auditProfiles(change: RegistryChange<McpProfile>, audit: AuditSink, run: string): void {
  audit.write(run, { event: 'profiles.applied', ...told(change) });
}

function told({ snapshot, upserted, deleted }: RegistryChange<unknown>) {
  return {
    epoch: snapshot.epoch,
    revision: snapshot.revision,
    upserted: upserted.slice(0, MAX_IDS),
    deleted: deleted.slice(0, MAX_IDS),
    upserts: upserted.length,
    deletes: deleted.length,
  };
}

/** Writes a line where the registry refuses this node, is out of reach, or is back. */
export function auditRegistryState({ state, lastError: reason }: RegistryStatus, audit: AuditSink, run: string): void {
  if (state !== 'starting') audit.write(run, { event: 'registry.state', state, reason });
}
