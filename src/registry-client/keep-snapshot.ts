import type { StoreStamps } from '../server/records/record-kind.ts';
import type { KindCache } from './kind-cache.ts';
import { writeSnapshotFile } from './snapshot-file.ts';

export interface KeepSnapshotOptions {
  readonly path: string;
  readonly source: string;
  /** Between two writes. @default 5 s */
  readonly intervalMs?: number;
  /** Whether every change is written at once. @default false, within the interval */
  readonly promptly?: boolean;
  /** The file could not be written; said once. */
  readonly onFailure: (error: unknown) => void;
}

const DEFAULT_INTERVAL_MS = 5_000;

/** Keeps the file up to date with what the cache has confirmed. The returned function stops that. */
export function keepSnapshot<R extends StoreStamps>(
  cache: KindCache<R>,
  options: KeepSnapshotOptions,
): () => Promise<void> {
  const { path, source, intervalMs = DEFAULT_INTERVAL_MS, promptly = false, onFailure } = options;
  let writing: Promise<void> | null = null;
  let failed = false;
  let isOpen = true;
  const save = () => {
    const snapshot = cache.snapshot();
    const { state, ageMs } = cache.status();
    if (writing !== null || snapshot === null || snapshot.epoch === '' || state !== 'ready') return;
    writing = writeSnapshotFile(path, source, snapshot, Date.now() - (ageMs ?? 0))
      .catch((error: unknown) => {
        if (!failed) onFailure(error);
        failed = true;
      })
      .finally(() => {
        writing = null;
        if (promptly && isOpen && cache.snapshot() !== snapshot) save();
      });
  };
  const timer = setInterval(save, intervalMs);
  const forget = [cache.onStatus(save), ...(promptly ? [cache.onChange(save)] : [])];
  return async () => {
    isOpen = false;
    clearInterval(timer);
    for (const one of forget) one();
    await writing;
  };
}
