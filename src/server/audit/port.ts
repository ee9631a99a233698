import type { AuditWriterOptions } from './writer.ts';

/** What the host thread hands to the thread that writes the trail. */
export interface AuditBatch {
  /** JSON texts, in the order of what happened. */
  readonly events: readonly string[];
  /** Events before these that found no place in the queue. */
  readonly dropped: number;
  readonly isLast: boolean;
  /** Somebody waits for its {@link BatchOutcome} under this number; null: nobody. */
  readonly asked: number | null;
}

/** What the thread says when it was asked about a batch. */
export interface BatchOutcome {
  readonly asked: number;
  /** Every line of it is in the file, and none before it was dropped. */
  readonly isWritten: boolean;
}

/** What the thread says by itself, once, when a line could not be written. */
export const FAILED = 'failed';
export type AuditNews = BatchOutcome | typeof FAILED;

export interface AuditThreadData extends AuditWriterOptions {
  /** Read by the host thread also when its event loop has ended. */
  readonly progress: SharedArrayBuffer;
}

/** Places in `progress`. */
export const progressAt = {
  /** Batches that are done with, written or not. */
  batches: 0,
  /** The number of the first error of the system; 0: none. */
  failure: 1,
  /** Steps that the thread has finished: its start, every write, every batch. 0: it does not run yet. */
  steps: 2,
} as const;

export const PROGRESS_BYTES = 3 * Int32Array.BYTES_PER_ELEMENT;
