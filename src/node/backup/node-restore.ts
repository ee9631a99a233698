import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pipeline } from 'node:stream/promises';
import { errorText } from '../../base/errors.ts';
import {
  checkIntegrity,
  DatabaseInUse,
  editDatabase,
  openExclusively,
  removeDatabase,
} from '../../base/sqlite-file.ts';
import type { NodeFiles } from '../../config/directories.ts';
import { startQueueEpoch } from '../../server/queue/embedded/schema.ts';
import { TaskStore } from '../task-store.ts';
import { type Manifest, readArchive } from './node-backup.ts';

/*
 * Replaces the data of a node by a backup. The archive is unpacked and checked in `restore.partial`. Then each part is moved
 * into place, and what it replaces to `before-restore`; the folder `restore` exists from before the first move until after
 * the last one. A node does not start while it exists, so a restore that is killed leaves either the old data, or a node
 * that says what to do.
 */

const PARTS = [
  'runs.db',
  'runs.db-wal',
  'runs.db-shm',
  'tasks.db',
  'tasks.db-wal',
  'tasks.db-shm',
  'blobs',
  'journals',
];
const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;

const places = ({ directory }: NodeFiles) => ({
  partial: join(directory, 'restore.partial'),
  moving: join(directory, 'restore'),
  replaced: join(directory, 'before-restore'),
  lock: join(directory, 'restore.lock'),
});

export interface RestoredNode extends Manifest {
  /** Where the data is that was replaced. */
  readonly replaced: string;
  /** Runs that had not ended when the backup was made. */
  readonly unfinished: number;
}

/** @throws Error if a restore of this data was interrupted, or is in progress */
export function refuseInterruptedRestore(files: NodeFiles): void {
  if (!existsSync(places(files).moving)) return;
  throw new Error(
    `${files.directory}: a restore was interrupted or is in progress; run "spearlet restore FILE" again before the node starts`,
  );
}

/** The node must not be serving. @throws DatabaseInUse, Error; the data is then as it was, unless the error says otherwise */
export async function restoreNode(archive: string, files: NodeFiles): Promise<RestoredNode> {
  const { partial, moving, replaced, lock } = places(files);
  mkdirSync(files.directory, { recursive: true, mode: PRIVATE_DIRECTORY });
  const only = holdLock(lock);
  const held: DatabaseSync[] = [];
  try {
    rmSync(partial, { recursive: true, force: true });
    const manifest = await unpack(archive, partial);
    const unfinished = checkUnpacked(archive, partial);
    held.push(...holdReplaced([files.runs, files.tasks]));
    // What an interrupted restore replaced stays there: it is the data before the first of them.
    if (!existsSync(moving)) rmSync(replaced, { recursive: true, force: true });
    mkdirSync(moving, { recursive: true, mode: PRIVATE_DIRECTORY });
    sync(files.directory);
    movePartsIn(files);
    return { ...manifest, replaced, unfinished };
  } finally {
    for (const db of held) db.close();
    only.close();
    removeDatabase(lock);
    rmSync(partial, { recursive: true, force: true });
  }
}

/** The other restore removes the file when it ends, also while this process waits for it. */
function holdLock(lock: string): DatabaseSync {
  try {
    return openExclusively(lock);
  } catch (error) {
    if (!(error instanceof DatabaseInUse) && existsSync(lock)) throw error;
    throw new Error(`${dirname(lock)}: another restore is in progress; try again when it has ended`);
  }
}

function movePartsIn(files: NodeFiles): void {
  const { partial, moving, replaced } = places(files);
  mkdirSync(replaced, { recursive: true, mode: PRIVATE_DIRECTORY });
  for (const part of PARTS) {
    const [now, before, next] = [files.directory, replaced, partial].map((place) => join(place, part)) as [
      string,
      string,
      string,
    ];
    if (existsSync(now)) {
      if (existsSync(before)) rmSync(now, { recursive: true, force: true });
      else renameSync(now, before);
    }
    if (existsSync(next)) renameSync(next, now);
  }
  sync(replaced);
  sync(files.directory);
  rmSync(moving, { recursive: true, force: true });
  sync(files.directory);
}

async function unpack(archive: string, into: string): Promise<Manifest> {
  try {
    return await readArchive(createReadStream(archive), async (path, content) => {
      const file = join(into, path);
      mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIRECTORY });
      await pipeline(content, createWriteStream(file, { flags: 'wx', mode: PRIVATE_FILE, flush: true }));
    });
  } catch (error) {
    throw new Error(`${archive} cannot be restored: ${errorText(error)}`);
  }
}

/** Both stores must be in the archive, and be what their names say. Returns the number of runs that had not ended. */
function checkUnpacked(archive: string, partial: string): number {
  const [runs, tasks] = [join(partial, 'runs.db'), join(partial, 'tasks.db')];
  try {
    for (const path of [runs, tasks]) if (!existsSync(path)) throw new Error(`${basename(path)} is missing`);
    const unfinished = startQueueEpoch(runs, archive);
    new TaskStore(tasks).close();
    editDatabase(tasks, (db) => checkIntegrity(db, archive));
    return unfinished;
  } catch (error) {
    throw new Error(`${archive} cannot be restored: ${errorText(error).replaceAll(`${partial}/`, '')}`);
  }
}

/** Holding the old files proves that no process uses them. A file that is too damaged to be opened is what a backup replaces. */
function holdReplaced(paths: readonly string[]): DatabaseSync[] {
  const held: DatabaseSync[] = [];
  for (const path of paths.filter((one) => existsSync(one))) {
    try {
      const db = openExclusively(path);
      held.push(db);
      // Out of the write-ahead log: the log must not be replayed into the file that takes this name.
      db.exec('PRAGMA journal_mode = DELETE');
    } catch (error) {
      if (!(error instanceof DatabaseInUse)) continue;
      for (const db of held) db.close();
      throw new Error(`${path} is in use: stop the node, then restore`);
    }
  }
  return held;
}

function sync(directory: string): void {
  const fd = openSync(directory, 'r');
  fsyncSync(fd);
  closeSync(fd);
}
