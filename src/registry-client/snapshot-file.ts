import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isJsonObject, parseJson } from '../base/json.ts';
import { splitOnce } from '../base/text.ts';
import { privateDirectoryProblem } from '../config/directories.ts';
import type { RecordKind, StoreStamps } from '../server/records/record-kind.ts';
import type { KindCache } from './kind-cache.ts';
import { type RegistrySnapshot, restoreSnapshot, type SavedSnapshot } from './snapshot.ts';

const VERSION = 1;
const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;
const OTHERS = 0o077;
/** Bound on the first line: hashes and names of known lengths. */
const MAX_HEADER_BYTES = 4_096;
/** Yields to the event loop after this many records. */
const RECORDS_PER_TURN = 200;

/** The first line of the file; a record follows in each further one. */
interface Header {
  readonly version: number;
  /** The address of the registry. */
  readonly source: string;
  readonly epoch: string;
  readonly revision: number;
  /** Hash of all following lines. */
  readonly sha256: string;
}

/** Path of the snapshot of the registry at `source`, shared by all runs of this user on this machine. */
export function snapshotPath(stateDirectory: string, source: string, suffix = ''): string {
  const name = createHash('sha256').update(source).digest('hex').slice(0, 32);
  return join(stateDirectory, 'registry', `${name}${suffix}.jsonl`);
}

/** The snapshot that an earlier run saved, or null if there is none that can be trusted. The file's mtime is its age. */
export async function readSnapshotFile<R extends StoreStamps>(
  path: string,
  source: string,
  kind: RecordKind<R>,
): Promise<SavedSnapshot<R> | null> {
  if (privateDirectoryProblem(dirname(path)) !== null) return null;
  let text: string;
  let confirmedAtMs: number;
  const file = await open(path, 'r').catch(() => null);
  if (file === null) return null;
  try {
    const { mode, uid, mtimeMs } = await file.stat();
    if ((mode & OTHERS) !== 0 || uid !== (process.geteuid?.() ?? uid)) return null;
    text = await file.readFile('utf8');
    confirmedAtMs = mtimeMs;
  } finally {
    await file.close();
  }
  const [first, body] = splitOnce(text, '\n');
  const header = parseHeader(first);
  if (header === null || body === null || header.source !== source || header.sha256 !== sha256(body)) return null;
  const records = await parseRecords(body, kind);
  if (records === null) return null;
  const { epoch, revision } = header;
  return { snapshot: restoreSnapshot(kind, null, { epoch, revision, records }).snapshot, confirmedAtMs };
}

/** Saves the snapshot, unless another run already did; in both cases the mtime is when it was confirmed. */
export async function writeSnapshotFile(
  path: string,
  source: string,
  { epoch, revision, records }: RegistrySnapshot<unknown>,
  confirmedAtMs: number,
): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  if (privateDirectoryProblem(dirname(path)) !== null) return;
  const saved = await readHeader(path);
  if (saved?.source === source && saved.epoch === epoch && saved.revision === revision) {
    const { mtimeMs } = await stat(path);
    if (mtimeMs < confirmedAtMs) await utimes(path, confirmedAtMs / 1000, confirmedAtMs / 1000);
    return;
  }
  const lines: string[] = [];
  const hash = createHash('sha256');
  for (const record of records.values()) {
    const line = `${JSON.stringify(record)}\n`;
    hash.update(line);
    if (lines.push(line) % RECORDS_PER_TURN === 0) await turn();
  }
  const header: Header = { version: VERSION, source, epoch, revision, sha256: hash.digest('hex') };
  await writeWhole(path, [`${JSON.stringify(header)}\n`, ...lines], confirmedAtMs);
}

/** Replaces the file atomically. */
async function writeWhole(path: string, lines: readonly string[], confirmedAtMs: number): Promise<void> {
  const partial = `${path}.${randomUUID()}`;
  let file: FileHandle | null = null;
  try {
    file = await open(partial, 'wx', PRIVATE_FILE);
    await file.writeFile(lines.join(''));
    await file.utimes(confirmedAtMs / 1000, confirmedAtMs / 1000);
    await file.close();
    file = null;
    await rename(partial, path);
  } catch (error) {
    await file?.close();
    await rm(partial, { force: true });
    throw error;
  }
}

async function readHeader(path: string): Promise<Header | null> {
  const file = await open(path, 'r').catch(() => null);
  if (file === null) return null;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_HEADER_BYTES), 0, MAX_HEADER_BYTES, 0);
    return parseHeader(splitOnce(buffer.toString('utf8', 0, bytesRead), '\n')[0]);
  } finally {
    await file.close();
  }
}

function parseHeader(line: string): Header | null {
  const header = parseJson(line);
  if (header === undefined || !isJsonObject(header) || header.version !== VERSION) return null;
  const { source, epoch, revision, sha256: hash } = header;
  const isWhole =
    typeof source === 'string' &&
    typeof epoch === 'string' &&
    epoch !== '' &&
    Number.isSafeInteger(revision) &&
    typeof hash === 'string';
  return isWhole ? { version: VERSION, source, epoch, revision: Number(revision), sha256: hash } : null;
}

async function parseRecords<R extends StoreStamps>(body: string, kind: RecordKind<R>): Promise<R[] | null> {
  const records: R[] = [];
  for (const line of body.split('\n')) {
    if (line === '') continue;
    const parsed = kind.parse(parseJson(line), { strict: false });
    if (!parsed.ok) return null;
    if (records.push(parsed.record) % RECORDS_PER_TURN === 0) await turn();
  }
  return records;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export interface KeepSnapshotOptions {
  readonly path: string;
  readonly source: string;
  /** Between two writes. @default 5 s */
  readonly intervalMs?: number;
  /** Whether every change is written immediately. @default false, within the interval */
  readonly promptly?: boolean;
  /** The file could not be written; called once. */
  readonly onFailure: (error: unknown) => void;
}

const DEFAULT_INTERVAL_MS = 5_000;

/** Keeps the file up to date with the confirmed snapshot of the cache. The returned function stops it. */
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
