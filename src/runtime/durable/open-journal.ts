// Entry of durable/: opens journals to record, resume or replay a run. Invariants: docs/contributing/durable.md.

import { hash } from 'node:crypto';
import { version } from '../../base/version.ts';
import { abiVersion } from '../abi/calls.ts';
import { BlockCipher, type JournalKey } from './blocks.ts';
import { JOURNAL_FORMAT, type JournalSync, UNSEALED_SINCE_FORMAT } from './journal.ts';
import { JournalError } from './journal-error.ts';
import { JournalFile, JournalLock, type JournalStorage, type JournalWriter } from './journal-file.ts';
import { readJournal, requireEncrypted } from './read-journal.ts';
import { RecordedRun } from './recorded-run.ts';
import { type RunHeader, RunJournal } from './run-journal.ts';

export interface JournalOpening {
  readonly file: string;
  /** Storage instead of a file; null: the file. */
  readonly storage: JournalStorage | null;
  readonly sync: JournalSync;
  /** Restored from a backup: calls may have been made that the journal does not have. */
  readonly restored: boolean;
  /** Null: a new journal is written unencrypted, and an encrypted one is refused. With a key, an unencrypted journal is not resumed. */
  readonly key: JournalKey | null;
  /** The journal is full or cannot be written, so the run must end. */
  readonly onFull: (why: JournalError) => void;
  readonly onNotice: (text: string) => void;
}

/** Header fields that differ between runs. */
export type RunInputs = Omit<
  RunHeader,
  't' | 'format' | 'started' | 'spear' | 'abi' | 'v8' | 'arch' | 'wasm' | 'quiet_start'
> & {
  readonly wasmPath: string | null;
};

/** Creates a journal. @throws JournalError */
export function recordJournal(opening: JournalOpening, wasm: Uint8Array, inputs: RunInputs): RunJournal {
  const { wasmPath: path, ...own } = inputs;
  const header: RunHeader = {
    t: 'header',
    format: JOURNAL_FORMAT,
    started: Date.now(),
    spear: version,
    abi: [abiVersion.major, abiVersion.minor],
    v8: process.versions.v8,
    arch: process.arch,
    wasm: { sha256: hash('sha256', wasm), bytes: wasm.byteLength, path },
    quiet_start: true,
    ...own,
  };
  const cipher = opening.key === null ? null : new BlockCipher(opening.key);
  const options = { ...fileOptions(opening, header, header.limits.journal_bytes), cipher };
  const writer: JournalWriter = opening.storage?.writer(options, null) ?? new JournalFile(options);
  return new RunJournal(header, null, writer, opening.restored);
}

/** Opens a journal to resume its run: appends after the last complete block, with the key of the first one. @throws JournalError */
export function resumeJournal(opening: JournalOpening, wasm: Uint8Array, maxBytes: number): RunJournal {
  const { file, key, storage } = opening;
  if (storage !== null) {
    const { recorded, options, end } = readForResume(opening, wasm, maxBytes);
    return new RunJournal(recorded.header, recorded, storage.writer(options, end), opening.restored);
  }
  readJournal(file, key); // before locking: a file that is not a journal gets no lock file
  const lock = JournalLock.take(file);
  try {
    const { recorded, options, end } = readForResume(opening, wasm, maxBytes);
    return new RunJournal(recorded.header, recorded, new JournalFile(options, end, lock), opening.restored);
  } catch (error) {
    lock.release();
    throw error;
  }
}

function readForResume(opening: JournalOpening, wasm: Uint8Array, maxBytes: number) {
  const { file, key, storage, onNotice } = opening;
  const read = readJournal(file, key, storage?.bytes ?? null);
  requireEncrypted(read, key);
  const recorded = new RecordedRun(read);
  checkWasm(recorded, wasm);
  noticeOtherVersions(recorded, onNotice);
  const { cipher, end } = read;
  return { recorded, end, options: { ...fileOptions(opening, recorded.header, maxBytes), cipher } };
}

/** Opens a journal for replay only. @throws JournalError */
export function replayJournal({ file, key, storage, onNotice }: JournalOpening, wasm: Uint8Array): RunJournal {
  const recorded = new RecordedRun(readJournal(file, key, storage?.bytes ?? null));
  checkWasm(recorded, wasm);
  noticeOtherVersions(recorded, onNotice);
  return new RunJournal(recorded.header, recorded, null);
}

function fileOptions({ file: path, sync, onFull }: JournalOpening, { format }: RunHeader, maxBytes: number) {
  return { path, sync, maxBytes, onFull, sealsAtOnce: format < UNSEALED_SINCE_FORMAT };
}

function checkWasm({ file, header }: RecordedRun, wasm: Uint8Array): void {
  const found = hash('sha256', wasm);
  if (found === header.wasm.sha256) return;
  throw new JournalError(
    file,
    `recorded with module sha256 ${header.wasm.sha256}, this module is ${found}; pass the original module`,
  );
}

/** Another version should replay identically; if not, replay detects it. */
function noticeOtherVersions({ file, header }: RecordedRun, onNotice: (text: string) => void): void {
  const differences = [
    header.spear === version ? '' : `Spear ${header.spear}`,
    header.v8 === process.versions.v8 ? '' : `V8 ${header.v8}`,
    header.arch === process.arch ? '' : `${header.arch} (NaN bit patterns may differ)`,
  ].filter((other) => other !== '');
  if (differences.length > 0) onNotice(`${file} was written by ${differences.join(', ')}`);
}
