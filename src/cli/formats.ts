import { abiVersion } from '../abi/calls.ts';
import { AUDIT_VERSION } from '../audit/event.ts';
import { JOURNAL_FORMAT } from '../protocol/journal.ts';
import { RUNS_FORMAT } from '../queue/embedded/schema.ts';
import { REGISTRY_FORMAT } from '../sms/store/sqlite-schema.ts';
import { NODE_BACKUP_FORMAT } from '../spearlet/backup/node-archive.ts';
import { TASKS_FORMAT } from '../spearlet/task-store.ts';

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
