import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errorCode } from '../../base/errors.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { removeDatabase } from '../../base/sqlite-file.ts';
import { ByteReader, parseTarHeader, type TarEntry, tarEnd, tarHeader, tarPadding } from '../../base/tar.ts';
import { version } from '../../base/version.ts';
import type { NodeFiles } from '../../config/directories.ts';
import { Blobs } from '../../server/tasks/blobs.ts';
import { FileJournals } from '../run-journals.ts';

/** What a backup is made of: open stores that write consistent copies of themselves. */
export interface BackupSource {
  readonly files: NodeFiles;
  readonly runs: { backup(path: string): Promise<void> };
  readonly tasks: { backup(path: string): Promise<void> };
}

const CHUNK_BYTES = 256 * 1024;
const LINE_END = 0x0a;

/**
 * The bytes of a backup, also while the node serves. The queue is copied first, then the journals of its runs: a journal
 * is then as old as the queue or newer, as after a crash, and never older. Copies are removed when this ends.
 */
export async function* backupOf({ files, runs, tasks }: BackupSource): AsyncGenerator<Uint8Array> {
  const copies = copiesOf(files);
  try {
    const created_at_ms = Date.now();
    await runs.backup(copies.runs);
    await tasks.backup(copies.tasks);
    yield* archiveOf(filesOf(files, copies), { spear: version, created_at_ms });
  } finally {
    removeCopies(files);
  }
}

/** Removes what a backup left that was killed. */
export function removeCopies(files: NodeFiles): void {
  for (const copy of Object.values(copiesOf(files))) removeDatabase(copy);
}

const copiesOf = ({ runs, tasks }: NodeFiles) => ({ runs: `${runs}.backup`, tasks: `${tasks}.backup` });

async function* filesOf(
  { directory, blobs, journals }: NodeFiles,
  copies: ReturnType<typeof copiesOf>,
): AsyncGenerator<ArchivedFile> {
  yield* opened(copies.runs, 'runs.db');
  yield* opened(copies.tasks, 'tasks.db');
  const named = (path: string) => opened(path, relative(directory, path));
  for (const { sha256 } of new Blobs(blobs).list()) yield* named(join(blobs, `${sha256}.wasm`));
  const paths = new FileJournals(journals);
  const copy = new DatabaseSync(copies.runs, { readOnly: true });
  try {
    for (const { namespace, id } of copy.prepare('SELECT namespace, id FROM runs').iterate()) {
      yield* named(paths.path(String(namespace), String(id)));
    }
  } finally {
    copy.close();
  }
}

/** The file as long as it is now, if there is one. */
async function* opened(file: string, path: string): AsyncGenerator<ArchivedFile> {
  let handle: FileHandle;
  try {
    handle = await open(file, 'r');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return; // a run without a journal, or one that retention removed meanwhile
    throw error;
  }
  try {
    const { size: bytes } = await handle.stat();
    yield { path, bytes, content: () => contentOf(handle, bytes) };
  } finally {
    await handle.close();
  }
}

/** Exactly `bytes` bytes. A journal that becomes shorter loses half a record, and ends with empty lines here: they do not count. */
async function* contentOf(handle: FileHandle, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes; ) {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, bytes - at));
    const { bytesRead } = await handle.read(chunk, 0, chunk.byteLength, at);
    if (bytesRead === 0) chunk.fill(LINE_END);
    const read = bytesRead === 0 ? chunk : chunk.subarray(0, bytesRead);
    at += read.byteLength;
    yield read;
  }
}

/**
 * The file that `spearlet backup` writes: a tar archive of `runs.db`, `tasks.db`, `blobs/` and `journals/`. Its last
 * entry is the manifest with a sha256 of all bytes before it, so a cut or changed archive is rejected.
 */

export const NODE_BACKUP_FORMAT = 1;
const MANIFEST = 'manifest.json';
const BLOCK = 512;
const MAX_MANIFEST_BYTES = 64 * 1024;
const ENTRY_CHUNK_BYTES = 1024 * 1024;
const VERSION = /^[0-9A-Za-z.+-]{1,64}$/;
/** The last time that a Date can be. */
const MAX_DATE_MS = 8.64e15;
/** All that an archive may hold; nothing else is unpacked. */
const KNOWN_PATH =
  /^(?:(?:runs|tasks)\.db|blobs\/[0-9a-f]{64}\.wasm|journals\/[A-Za-z0-9][A-Za-z0-9_.-]*\/[A-Za-z0-9_-]{1,2}\/[A-Za-z0-9_-]+\.jsonl)$/;

/** One file of the node. `content` gives exactly `bytes` bytes. */
export interface ArchivedFile extends TarEntry {
  content(): AsyncIterable<Uint8Array>;
}

export interface Manifest {
  readonly format: number;
  readonly spear: string;
  readonly created_at_ms: number;
}

/** The bytes of an archive. */
export async function* archiveOf(files: AsyncIterable<ArchivedFile>, manifest: Omit<Manifest, 'format'>) {
  const sum = createHash('sha256');
  const counted = (bytes: Uint8Array) => {
    sum.update(bytes);
    return bytes;
  };
  for await (const file of files) {
    yield counted(tarHeader(file));
    for await (const chunk of file.content()) yield counted(chunk);
    yield counted(tarPadding(file.bytes));
  }
  const last = Buffer.from(JSON.stringify({ format: NODE_BACKUP_FORMAT, ...manifest, sha256: sum.digest('hex') }));
  yield tarHeader({ path: MANIFEST, bytes: last.byteLength });
  yield last;
  yield tarPadding(last.byteLength);
  yield tarEnd();
}

/**
 * Gives every file of an archive to `unpack`, which reads all of `content`. Resolves when the manifest confirms them.
 * @throws Error that says what is wrong; what was unpacked is then not to be used
 */
export async function readArchive(
  source: AsyncIterable<Uint8Array>,
  unpack: (path: string, content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<Manifest> {
  const sum = createHash('sha256');
  const reader = new ByteReader(source);
  for (;;) {
    const header = await reader.exactly(BLOCK);
    const entry = parseTarHeader(header);
    if (entry === null) throw new Error('the manifest is missing');
    if (entry.path === MANIFEST) return confirmed(await manifestBytes(reader, entry), sum.digest('hex'));
    if (!KNOWN_PATH.test(entry.path)) throw new Error(`unexpected entry ${JSON.stringify(entry.path)}`);
    sum.update(header);
    await unpack(entry.path, entryContent(reader, entry.bytes, sum));
    sum.update(await reader.exactly(tarPadding(entry.bytes).byteLength));
  }
}

async function* entryContent(reader: ByteReader, bytes: number, sum: { update(bytes: Uint8Array): unknown }) {
  for (let left = bytes; left > 0; ) {
    const part = await reader.some(Math.min(left, ENTRY_CHUNK_BYTES));
    if (part === null) throw new Error('the file ends too early');
    sum.update(part);
    left -= part.byteLength;
    yield part;
  }
}

async function manifestBytes(reader: ByteReader, { bytes }: TarEntry): Promise<string> {
  if (bytes > MAX_MANIFEST_BYTES) throw new Error('the manifest is too large');
  return (await reader.exactly(bytes)).toString('utf8');
}

function confirmed(text: string, sha256: string): Manifest {
  const parsed = parseJson(text);
  if (parsed === undefined || !isJsonObject(parsed)) throw new Error('the manifest is not a JSON object');
  const manifest = parsed as unknown as Manifest & { readonly sha256: unknown };
  if (manifest.format !== NODE_BACKUP_FORMAT) {
    throw new Error(
      `it has format ${JSON.stringify(manifest.format)}; this version reads format ${NODE_BACKUP_FORMAT}`,
    );
  }
  if (manifest.sha256 !== sha256) throw new Error('its sha256 does not match: the file was changed or damaged');
  // The sum does not cover the manifest.
  const { spear, created_at_ms } = manifest;
  const isSound = typeof spear === 'string' && VERSION.test(spear) && Number.isInteger(created_at_ms);
  if (!isSound || Math.abs(created_at_ms) > MAX_DATE_MS) throw new Error('the manifest is damaged');
  return manifest;
}
