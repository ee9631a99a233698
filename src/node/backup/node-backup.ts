import { type FileHandle, open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errorCode } from '../../base/error-text.ts';
import { removeDatabase } from '../../base/sqlite-file.ts';
import { version } from '../../base/version.ts';
import type { NodeFiles } from '../../config/node/paths.ts';
import { Blobs } from '../../server/tasks/blobs.ts';
import { FileJournals } from '../run-journals.ts';
import { type ArchivedFile, archiveOf } from './node-archive.ts';

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
