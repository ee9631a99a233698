import { mkdirSync, rmSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode } from '../base/errors.ts';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import type { JournalMode, JournalOption } from '../run/run-options.ts';
import { journalKey } from '../runtime/durable/blocks.ts';
import type { EndRecord, TimedRecord } from '../runtime/durable/journal.ts';
import { JournalError, JournalHeaderMissing } from '../runtime/durable/journal-error.ts';
import { type ReadJournal, readJournal, requireEncrypted } from '../runtime/durable/read-journal.ts';
import type { Claim } from '../server/queue/run-queue.ts';
import type { RunCost } from '../server/records/run.ts';
import type { Secret } from '../server/secrets/secret.ts';
import { timelineOf } from '../server/timeline/timeline.ts';
import type { Timeline } from '../server/timeline/timeline-entry.ts';

const PRIVATE_DIRECTORY = 0o700;
/** Journals are distributed over folders by the end of their names. */
const FOLDER_CHARS = 2;

/** Rendering a timeline blocks the host thread. */
const MAX_SHOWN_BYTES = 32 * 1024 * 1024;

/** State of a run after its earlier attempts, from its journal. */
export interface EarlierAttempt {
  /** Null: the last attempt did not end. */
  readonly end: EndRecord | null;
  readonly stdout: Uint8Array;
  /** Bytes of the input that the guest has read. */
  readonly inputRead: number;
  readonly cost: RunCost;
  /** Number of resumes. */
  readonly resumed: number;
}

/** Journals of runs: files of a node, or NATS. */
export interface RunJournals {
  /** Journal option of a guest that starts or resumes. */
  option(claim: Claim, mode: JournalMode): JournalOption;
  /** Null: no earlier attempt has started a guest. @throws JournalError for a damaged journal */
  earlier(claim: Claim): Promise<EarlierAttempt | null>;
  /** Null: the run has no journal. */
  read(namespace: string, run: string): Promise<Uint8Array | null>;
  /** @throws JournalError, Error */
  timeline(namespace: string, run: string): Promise<Timeline>;
  remove(namespace: string, run: string): Promise<void>;
}

/** Journals in files of one node. */
export class FileJournals implements RunJournals {
  readonly #directory: string;
  readonly #key: Secret | null;
  readonly #made = new Set<string>();

  /** `key`: encrypts new journals. @default none */
  constructor(directory: string, key: Secret | null = null) {
    this.#directory = directory;
    this.#key = key;
  }

  path(namespace: string, run: string): string {
    return join(this.#directory, namespace, run.slice(-FOLDER_CHARS), `${run}.jsonl`);
  }

  /** Path of a new journal, with its folder created. */
  prepare(namespace: string, run: string): string {
    const path = this.path(namespace, run);
    const folder = dirname(path);
    if (!this.#made.has(folder)) mkdirSync(folder, { recursive: true, mode: PRIVATE_DIRECTORY });
    this.#made.add(folder);
    return path;
  }

  option({ run, isRestored: restored = false }: Claim, mode: JournalMode): JournalOption {
    return { file: this.prepare(run.namespace, run.id), mode, restored, key: this.#key?.reveal() ?? null };
  }

  async earlier({ run }: Pick<Claim, 'run'>): Promise<EarlierAttempt | null> {
    return this.summaryOf(run.namespace, run.id);
  }

  async read(namespace: string, run: string): Promise<Uint8Array | null> {
    try {
      return await readFile(this.path(namespace, run));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null;
      throw error;
    }
  }

  async remove(namespace: string, run: string): Promise<void> {
    const path = this.path(namespace, run);
    rmSync(path, { force: true });
    rmSync(`${path}.lock`, { force: true }); // of a node that was killed
  }

  /** @throws JournalError */
  summaryOf(namespace: string, run: string): EarlierAttempt | null {
    const path = this.path(namespace, run);
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) return null;
    try {
      return earlierOf(run, path, this.#key, null);
    } catch (error) {
      // A guest starts after its header is written: an incomplete header means that nothing was done.
      if (!(error instanceof JournalHeaderMissing)) throw error;
      rmSync(path, { force: true });
      return null;
    }
  }

  async timeline(namespace: string, run: string): Promise<Timeline> {
    return shownTimeline(run, await this.read(namespace, run), this.#key);
  }
}

/** @throws JournalError */
export function shownTimeline(run: string, bytes: Uint8Array | null, key: Secret | null): Timeline {
  if (bytes === null) throw new JournalError(run, 'the run has no journal');
  if (bytes.byteLength > MAX_SHOWN_BYTES) {
    const size = `the journal has ${bytes.byteLength} bytes`;
    throw new JournalError(run, `${size}, too large to show here: use spear journal show`);
  }
  const read = readJournal(run, key && journalKey(key.reveal()), bytes);
  requireRun(read, run);
  return timelineOf(read);
}

/** `bytes` null: read the file. @throws JournalError, also for the journal of another run or a missing key */
export function earlierOf(run: string, file: string, secret: Secret | null, bytes: Uint8Array | null): EarlierAttempt {
  const key = secret && journalKey(secret.reveal());
  const read = readJournal(file, key, bytes);
  requireEncrypted(read, key);
  requireRun(read, run);
  return summary(read.records);
}

/** The journal of another run has a valid chain, and may be encrypted with the same key. @throws JournalError */
function requireRun({ file, header }: ReadJournal, run: string): void {
  if (header.run === run) return;
  throw new JournalError(file, `the journal belongs to ${JSON.stringify(header.run)}, not to the run ${run}`);
}

/** Sums up the records of a journal. */
export function summary(records: readonly TimedRecord[]): EarlierAttempt {
  const stdout: Uint8Array[] = [];
  let inputRead = 0;
  let resumed = 0;
  let end: EndRecord | null = null;
  const cost = { model_calls: 0, tool_calls: 0, tokens: {} as Record<string, number> };
  for (const record of records) {
    switch (record.t) {
      case 'output':
        if (record.fd === 'stdout') stdout.push(Buffer.from(record.b, 'base64'));
        break;
      case 'reply':
        inputRead += stdinBytes(record.m);
        break;
      case 'model.answered':
        cost.model_calls += 1;
        addTokens(cost.tokens, record.body?.usage);
        break;
      case 'tool.finished':
        cost.tool_calls += 1;
        break;
      case 'end':
        end = record;
        break;
      case 'resumed':
        resumed += 1;
        end = null;
    }
  }
  return { end, stdout: Buffer.concat(stdout), inputRead, cost, resumed };
}

export function addTokens(sum: Record<string, number>, usage: unknown): void {
  if (!isJsonObject(usage as JsonObject)) return;
  for (const [name, count] of Object.entries(usage as JsonObject)) {
    if (typeof count === 'number') sum[name] = (sum[name] ?? 0) + count;
  }
}

function stdinBytes([kind, chunk]: readonly unknown[]): number {
  if (kind !== 'stdin') return 0;
  const { $bytes = '' } = chunk as { readonly $bytes?: string };
  return Buffer.byteLength($bytes, 'base64');
}
