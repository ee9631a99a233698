import type { AuditEvent } from '../../../src/server/audit/event.ts';

/** An event that can be told from the others, and that no trail ever folds. */
export const change = (number: number) =>
  ({
    event: 'registry.applied',
    epoch: 'e',
    revision: number,
    upserted: [],
    deleted: [],
    upserts: 0,
    deletes: 0,
  }) as const satisfies AuditEvent;
