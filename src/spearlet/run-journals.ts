import { mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import { journalKey } from '../journal/block-cipher.ts';
import { JournalError } from '../journal/journal-error.ts';
import { readJournal } from '../journal/read-journal.ts';
import { timelineOf } from '../journal/timeline.ts';
import type { Timeline } from '../journal/timeline-entry.ts';
import type { EndRecord, TimedRecord } from '../protocol/journal.ts';
import type { RunCost } from '../protocol/run.ts';
import type { JournalMode, JournalOption } from '../run/journal-option.ts';
import type { Secret } from '../secrets/secret.ts';

const PRIVATE_DIRECTORY = 0o700;
/** Journals are spread over folders by the end of their names, so that none holds too many. */
const FOLDER_CHARS = 2;

/** A journal that is read for somebody to look at keeps the host's thread busy. */
const MAX_SHOWN_BYTES = 32 * 1024 * 1024;

/** What an earlier attempt of a run left behind. */
export interface EarlierAttempt {
  /** Null: it did not come to its end, or was taken up again. */
  readonly end: EndRecord | null;
  readonly stdout: Uint8Array;
  /** Bytes of the input that the guest has read. */
  readonly inputRead: number;
  readonly cost: RunCost;
}

/** The journals of a node's runs. */
export class RunJournals {
  readonly #directory: string;
  readonly #key: Secret | null;
  readonly #made = new Set<string>();

  /** `key`: what new ones are encrypted with. @default none */
  constructor(directory: string, key: Secret | null = null) {
    this.#directory = directory;
    this.#key = key;
  }

  path(namespace: string, run: string): string {
    return join(this.#directory, namespace, run.slice(-FOLDER_CHARS), `${run}.jsonl`);
  }

  /** Where a new one can be written. */
  prepare(namespace: string, run: string): string {
    const path = this.path(namespace, run);
    const folder = dirname(path);
    if (!this.#made.has(folder)) mkdirSync(folder, { recursive: true, mode: PRIVATE_DIRECTORY });
    this.#made.add(folder);
    return path;
  }

  /** For a guest that begins, or goes on. */
  option(namespace: string, run: string, mode: JournalMode): JournalOption {
    return { file: this.prepare(namespace, run), mode, key: this.#key?.reveal() ?? null };
  }

  /** Null: there was none that did anything. @throws JournalError for one that is not what was written */
  earlier(namespace: string, run: string): EarlierAttempt | null {
    const path = this.path(namespace, run);
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) return null;
    try {
      return summary(readJournal(path, this.#key && journalKey(this.#key.reveal())).records);
    } catch (error) {
      // A guest begins when its header stands there whole: with less than that nothing was done.
      if (!(error instanceof JournalError) || !error.message.endsWith('line 1: it is no journal')) throw error;
      rmSync(path, { force: true });
      return null;
    }
  }

  /** What it did so far, for people. @throws JournalError, Error */
  timeline(namespace: string, run: string): Timeline {
    const path = this.path(namespace, run);
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) throw new JournalError(run, 'it has no journal');
    if (size > MAX_SHOWN_BYTES) {
      throw new JournalError(run, `its journal has ${size} bytes, too many to be shown here: spear journal show`);
    }
    return timelineOf(readJournal(path, this.#key && journalKey(this.#key.reveal())));
  }

  remove(namespace: string, run: string): void {
    const path = this.path(namespace, run);
    rmSync(path, { force: true });
    rmSync(`${path}.lock`, { force: true }); // of a node that was killed
  }
}

function summary(records: readonly TimedRecord[]): EarlierAttempt {
  const stdout: Uint8Array[] = [];
  let inputRead = 0;
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
        end = null;
    }
  }
  return { end, stdout: Buffer.concat(stdout), inputRead, cost };
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
