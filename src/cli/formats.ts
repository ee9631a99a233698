import { NODE_BACKUP_FORMAT } from '../node/backup/node-backup.ts';
import { TASKS_FORMAT } from '../node/task-store.ts';
import { abiVersion } from '../runtime/abi/calls.ts';
import { JOURNAL_FORMAT } from '../runtime/durable/journal.ts';
import { AUDIT_VERSION } from '../server/audit/event.ts';
import { RUNS_FORMAT } from '../server/queue/embedded/schema.ts';
import { REGISTRY_FORMAT } from '../server/store/sqlite-schema.ts';

/** Versions of the formats that this package writes. It reads these and the older ones. */
export const formats = {
  ABI: `${abiVersion.major}.${abiVersion.minor}`,
  journal: JOURNAL_FORMAT,
  'runs.db': RUNS_FORMAT,
  'tasks.db': TASKS_FORMAT,
  'node backup': NODE_BACKUP_FORMAT,
  'registry file': REGISTRY_FORMAT,
  'audit log': AUDIT_VERSION,
} as const;
