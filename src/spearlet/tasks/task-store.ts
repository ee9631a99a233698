import { hash } from 'node:crypto';
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { canonicalJson, type JsonObject } from '../../base/json.ts';
import { inTransaction, openExclusively, whyNotStored } from '../../base/sqlite-file.ts';
import { type TaskContent, type TaskRevision, taskId } from '../../protocol/task.ts';
import { TaskError } from './task-error.ts';

/** Marks a file as the tasks of a node ("SPTK"). */
const APPLICATION_ID = 0x5350544b;
const FORMAT = 1;

const createTables = `
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${FORMAT};
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

/** A task as it stands: its live revision and how many there are. */
export interface Task {
  readonly namespace: string;
  readonly name: string;
  readonly live: TaskRevision;
  readonly revisions: number;
  /** The file that it comes from; null: it was applied. */
  readonly fromFile: string | null;
  /** Of what the file last said, whatever is live now. */
  readonly fileDigest: string | null;
}

export interface Applied {
  readonly task: Task;
  readonly outcome: 'created' | 'updated' | 'unchanged';
}

interface RevisionRow {
  readonly revision: number;
  readonly digest: string;
  readonly content: string;
  readonly created_at_ms: number;
  readonly created_by: string;
}

type Named = Pick<TaskContent, 'namespace' | 'name'>;

/** The tasks of a node, all their revisions, and which of them is live. A revision never changes. */
export class TaskStore {
  readonly #db: DatabaseSync;
  readonly #path: string;
  /** As they stand, so that a submission need not ask the disk. */
  readonly #known = new Map<string, Task>();

  /** @throws DatabaseInUse, Error */
  constructor(path: string) {
    this.#path = path;
    this.#db = openExclusively(path);
    const { application_id } = this.#db.prepare('PRAGMA application_id').get() as { application_id: number };
    const { user_version } = this.#db.prepare('PRAGMA user_version').get() as { user_version: number };
    if (application_id === 0 && user_version === 0) inTransaction(this.#db, () => this.#db.exec(createTables));
    else if (application_id !== APPLICATION_ID || user_version !== FORMAT) {
      this.#db.close();
      throw new Error(`${path} does not hold tasks in format ${FORMAT}`);
    }
  }

  /** Content that was there before gets its old number back: what was applied is live. */
  apply(content: TaskContent, by: string, fromFile: string | null = null): Applied {
    const digest = hash('sha256', canonicalJson(content as unknown as JsonObject));
    const before = this.find(content);
    return this.#write(() => {
      const known = this.#all('SELECT * FROM revisions WHERE namespace = ? AND name = ? AND digest = ?', [
        ...key(content),
        digest,
      ])[0];
      const revision = known?.revision ?? this.#count(content) + 1;
      if (known === undefined) {
        this.#run('INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?)', [
          ...key(content),
          ...[revision, digest, canonicalJson(content as unknown as JsonObject), Date.now(), by],
        ]);
      }
      this.#run(
        `INSERT INTO tasks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET live = excluded.live,
          from_file = excluded.from_file, file_digest = excluded.file_digest`,
        [...key(content), revision, fromFile, fromFile === null ? null : digest],
      );
      const outcome = before === null ? 'created' : before.live.digest === digest ? 'unchanged' : 'updated';
      return { task: this.#found(content), outcome };
    });
  }

  /** Makes a revision the live one. @throws TaskError */
  promote(named: Named, revision: number): Task {
    if (this.find(named) === null) throw unknownTask(named);
    if (this.revision(named, revision) === null) {
      throw new TaskError('unknown', `${taskId(named)} has no revision ${revision}; spear tasks get lists them`);
    }
    return this.#write(() => {
      this.#run('UPDATE tasks SET live = ? WHERE namespace = ? AND name = ?', [revision, ...key(named)]);
      return this.#found(named);
    });
  }

  /** Nothing more of it can be submitted; its revisions stay for the runs that have them. @throws TaskError */
  remove(named: Named): void {
    if (this.find(named) === null) throw unknownTask(named);
    this.#write(() => this.#run('DELETE FROM tasks WHERE namespace = ? AND name = ?', key(named)));
  }

  find(named: Named): Task | null {
    const id = taskId(named);
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const read = this.#read(named);
    // Of names that are no task's there is no end.
    if (read !== null) this.#known.set(id, read);
    return read;
  }

  #read(named: Named): Task | null {
    const sql = 'SELECT live, from_file, file_digest FROM tasks WHERE namespace = ? AND name = ?';
    const row = this.#db.prepare(sql).get(...key(named));
    if (row === undefined) return null;
    const live = this.revision(named, Number(row.live));
    if (live === null) return null;
    return {
      ...{ namespace: named.namespace, name: named.name, live, revisions: this.#count(named) },
      fromFile: row.from_file as string | null,
      fileDigest: row.file_digest as string | null,
    };
  }

  revision(named: Named, revision: number): TaskRevision | null {
    const sql = 'SELECT * FROM revisions WHERE namespace = ? AND name = ? AND revision = ?';
    const row = this.#all(sql, [...key(named), revision])[0];
    return row === undefined ? null : toRevision(row);
  }

  revisions(named: Named): readonly TaskRevision[] {
    const sql = 'SELECT * FROM revisions WHERE namespace = ? AND name = ? ORDER BY revision DESC';
    return this.#all(sql, key(named)).map(toRevision);
  }

  list(namespace: string | null): readonly Task[] {
    const rows = this.#db
      .prepare('SELECT namespace, name FROM tasks ORDER BY namespace, name')
      .all() as unknown as Named[];
    return rows
      .filter((row) => namespace === null || row.namespace === namespace)
      .flatMap((row) => this.find(row) ?? []);
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  #found(named: Named): Task {
    const task = this.find(named);
    if (task === null) throw unknownTask(named);
    return task;
  }

  #count(named: Named): number {
    const sql = 'SELECT max(revision) AS count FROM revisions WHERE namespace = ? AND name = ?';
    return Number(this.#db.prepare(sql).get(...key(named))?.count ?? 0);
  }

  #all(sql: string, values: SQLInputValue[]): readonly RevisionRow[] {
    return this.#db.prepare(sql).all(...values) as unknown as RevisionRow[];
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

const key = ({ namespace, name }: Named): [string, string] => [namespace, name];

function toRevision({ revision, digest, content, created_at_ms, created_by }: RevisionRow): TaskRevision {
  return { ...(JSON.parse(content) as TaskContent), revision, digest, created_at_ms, created_by };
}

export function unknownTask(named: Named): TaskError {
  return new TaskError('unknown', `there is no task ${taskId(named)}; spear tasks ls lists those there are`);
}
