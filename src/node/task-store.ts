import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { copyDatabase, inTransaction, namingDamage, openExclusively, whyNotStored } from '../base/sqlite-file.ts';
import { type TaskContent, type TaskRevision, taskContentText, taskDigest, taskId } from '../server/records/task.ts';
import {
  type AppliedTask,
  type NamedTask,
  type Task,
  type TaskBook,
  TaskError,
  unknownRevision,
  unknownTask,
} from '../server/tasks/task-book.ts';

/** Marks a file as the tasks of a node ("SPTK"). */
const APPLICATION_ID = 0x5350544b;
/** Format of `tasks.db`. */
export const TASKS_FORMAT = 1;
const REMEDY =
  'stop the node, then restore a backup with "spearlet restore FILE"; without a backup, move the file away and apply the tasks again';

const createTables = `
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${TASKS_FORMAT};
  CREATE TABLE revisions (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    digest TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (namespace, name, revision)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE tasks (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    live INTEGER NOT NULL,
    from_file TEXT,
    file_digest TEXT,
    PRIMARY KEY (namespace, name)
  ) STRICT, WITHOUT ROWID;
`;

interface RevisionRow {
  readonly revision: number;
  readonly digest: string;
  readonly content: string;
  readonly created_at_ms: number;
  readonly created_by: string;
}

/**
 * Tasks of a node in a SQLite file: numbered revisions, of which one is live, identified by the digest of their content.
 * Applying known content makes its revision live again. Writes are synchronous transactions; live tasks are cached in
 * memory, and the cache is cleared before and after each write. One process has the file open.
 */
export class TaskStore implements TaskBook {
  readonly #db: DatabaseSync;
  readonly #path: string;
  /** Cache of live tasks, so that a submission reads no file. */
  readonly #known = new Map<string, Task>();

  /** @throws DatabaseInUse, Error */
  constructor(path: string) {
    this.#path = path;
    this.#db = this.#reading(() => openExclusively(path));
    const { application_id } = this.#db.prepare('PRAGMA application_id').get() as { application_id: number };
    const { user_version } = this.#db.prepare('PRAGMA user_version').get() as { user_version: number };
    if (application_id === 0 && user_version === 0) inTransaction(this.#db, () => this.#db.exec(createTables));
    else if (application_id !== APPLICATION_ID || user_version !== TASKS_FORMAT) {
      this.#db.close();
      throw new Error(`${path} is not a task store of format ${TASKS_FORMAT}`);
    }
  }

  apply(content: TaskContent, by: string, fromFile: string | null = null): AppliedTask {
    const digest = taskDigest(content);
    const before = this.find(content);
    return this.#write(() => {
      const known = this.#all('SELECT * FROM revisions WHERE namespace = ? AND name = ? AND digest = ?', [
        ...key(content),
        digest,
      ])[0];
      const revision = known?.revision ?? this.#count(content) + 1;
      if (known === undefined) {
        this.#insert({ ...content, revision, digest, created_at_ms: Date.now(), created_by: by });
      }
      this.#setLive(content, revision, fromFile, fromFile === null ? null : digest);
      const outcome = before === null ? 'created' : before.live.digest === digest ? 'unchanged' : 'updated';
      return { task: this.#found(content), outcome };
    });
  }

  promote(named: NamedTask, revision: number): Task {
    if (this.find(named) === null) throw unknownTask(named);
    if (this.revision(named, revision) === null) throw unknownRevision(named, revision);
    return this.#write(() => {
      this.#run('UPDATE tasks SET live = ? WHERE namespace = ? AND name = ?', [revision, ...key(named)]);
      return this.#found(named);
    });
  }

  remove(named: NamedTask): void {
    if (this.find(named) === null) throw unknownTask(named);
    this.#write(() => this.#run('DELETE FROM tasks WHERE namespace = ? AND name = ?', key(named)));
  }

  find(named: NamedTask): Task | null {
    const id = taskId(named);
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const read = this.#read(named);
    // Unknown names are not cached: there is no bound on them.
    if (read !== null) this.#known.set(id, read);
    return read;
  }

  /** Makes a revision of the registry live. Precondition: no other revision has its number. */
  adopt(live: TaskRevision, fromFile: string | null): void {
    this.#write(() => {
      this.#insert(live);
      this.#setLive(live, live.revision, fromFile, null);
    });
  }

  /** Stores a revision of the registry, for runs that use it. */
  keep(revision: TaskRevision): void {
    this.#write(() => this.#insert(revision));
  }

  /** Precondition: no unfinished run uses the revision. */
  forget(named: NamedTask, revision: number): void {
    const sql = 'DELETE FROM revisions WHERE namespace = ? AND name = ? AND revision = ?';
    this.#write(() => this.#run(sql, [...key(named), revision]));
  }

  #insert(one: TaskRevision): void {
    const { revision, digest, created_at_ms, created_by } = one;
    const values = [...key(one), revision, digest, taskContentText(one), created_at_ms, created_by];
    this.#run('INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING', values);
  }

  #setLive(named: NamedTask, revision: number, fromFile: string | null, fileDigest: string | null): void {
    this.#run(
      `INSERT INTO tasks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET live = excluded.live,
        from_file = excluded.from_file, file_digest = excluded.file_digest`,
      [...key(named), revision, fromFile, fileDigest],
    );
  }

  #read(named: NamedTask): Task | null {
    const sql = 'SELECT live, from_file, file_digest FROM tasks WHERE namespace = ? AND name = ?';
    const row = this.#reading(() => this.#db.prepare(sql).get(...key(named)));
    if (row === undefined) return null;
    const live = this.revision(named, Number(row.live));
    if (live === null) return null;
    return {
      ...{ namespace: named.namespace, name: named.name, live, revisions: this.#count(named) },
      fromFile: row.from_file as string | null,
      fileDigest: row.file_digest as string | null,
    };
  }

  revision(named: NamedTask, revision: number): TaskRevision | null {
    const live = this.#known.get(taskId(named))?.live;
    if (live?.revision === revision) return live;
    const sql = 'SELECT * FROM revisions WHERE namespace = ? AND name = ? AND revision = ?';
    const row = this.#all(sql, [...key(named), revision])[0];
    return row === undefined ? null : toRevision(row);
  }

  revisions(named: NamedTask): readonly TaskRevision[] {
    const sql = 'SELECT * FROM revisions WHERE namespace = ? AND name = ? ORDER BY revision DESC';
    return this.#all(sql, key(named)).map(toRevision);
  }

  hasModule(namespace: string | null, sha256: string): boolean {
    const sql = `SELECT 1 FROM revisions WHERE json_extract(content, '$.wasm') = ? AND namespace = coalesce(?, namespace)`;
    return this.#reading(() => this.#db.prepare(sql).get(sha256, namespace)) !== undefined;
  }

  list(namespace: string | null): readonly Task[] {
    const sql = 'SELECT namespace, name FROM tasks ORDER BY namespace, name';
    const rows = this.#reading(() => this.#db.prepare(sql).all()) as unknown as NamedTask[];
    return rows
      .filter((row) => namespace === null || row.namespace === namespace)
      .flatMap((row) => this.find(row) ?? []);
  }

  /** Writes a consistent copy of the file to `path` while the store is in use. */
  backup(path: string): Promise<void> {
    return copyDatabase(this.#db, path);
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  #found(named: NamedTask): Task {
    const task = this.find(named);
    if (task === null) throw unknownTask(named);
    return task;
  }

  #count(named: NamedTask): number {
    const sql = 'SELECT max(revision) AS count FROM revisions WHERE namespace = ? AND name = ?';
    return Number(this.#reading(() => this.#db.prepare(sql).get(...key(named)))?.count ?? 0);
  }

  #all(sql: string, values: SQLInputValue[]): readonly RevisionRow[] {
    return this.#reading(() => this.#db.prepare(sql).all(...values)) as unknown as RevisionRow[];
  }

  #reading<T>(read: () => T): T {
    return namingDamage(this.#path, REMEDY, read);
  }

  #run(sql: string, values: SQLInputValue[]): void {
    this.#db.prepare(sql).run(...values);
  }

  #write<T>(work: () => T): T {
    let made: T | undefined;
    this.#known.clear();
    try {
      inTransaction(this.#db, () => {
        made = work();
      });
    } catch (error) {
      this.#known.clear();
      if (error instanceof TaskError) throw error;
      throw new TaskError('not_stored', `nothing was changed in ${this.#path}: ${whyNotStored(error)}`);
    }
    return made as T;
  }
}

const key = ({ namespace, name }: NamedTask): [string, string] => [namespace, name];

function toRevision({ revision, digest, content, created_at_ms, created_by }: RevisionRow): TaskRevision {
  return { ...(JSON.parse(content) as TaskContent), revision, digest, created_at_ms, created_by };
}
