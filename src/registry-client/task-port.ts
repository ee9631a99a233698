import type { TaskRecord, TaskRevision } from '../server/records/task.ts';
import type { RegistrySource } from './source.ts';

/** The tasks of a registry, as a node has them. */
export interface TaskPort extends RegistrySource<TaskRecord> {
  /** Null: there is none, or it is not kept any more. */
  revision(taskId: string, revision: number, signal: AbortSignal): Promise<TaskRevision | null>;
  /** What was sent; whoever asks compares the digest. Rejects for one of more than `maxBytes`. */
  module(sha256: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array>;
}
