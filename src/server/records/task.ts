import { hash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, isJsonObject, type JsonObject } from '../../base/json.ts';
import { type LimitName, limitNames } from '../../runtime/port/limits.ts';
import { sha256Problem } from './field-rules.ts';
import { checked, type Frozen, orNull, parserOf, storeStamps } from './fields.ts';
import { isNamespace } from './permissions.ts';
import type { RecordIssue, RecordKind, StoreStamps } from './record-kind.ts';

/** `shared`: many guests per thread. `thread`: one thread per guest. */
export const isolations = ['shared', 'thread'] as const;
export type Isolation = (typeof isolations)[number];

export const DEFAULT_CONCURRENCY = 50;
export const DEFAULT_MAX_ATTEMPTS = 3;

/** Far above a task written by hand, and small enough that every node can hold all tasks in memory. */
export const MAX_TASK_CONTENT_BYTES = 256 * 1024;

const plainName = checked((text) =>
  isNamespace(text) ? null : 'must be 1 to 63 characters of a-z, 0-9 and -, and not "constructor"',
);
const text = z.string();
const count = z.int().min(1);
const ms = z.int().min(0);
const digest = checked(sha256Problem);
const limits = z.custom<Partial<Record<LimitName, number>>>(
  (value) =>
    isJsonObject(value) &&
    Object.entries(value).every(
      ([name, bound]) => limitNames.some((known) => known === name) && Number.isSafeInteger(bound),
    ),
  'has an unknown limit, or a limit that is not a number',
);

const contentFields = {
  namespace: plainName,
  name: plainName,
  /** sha256 of the module, in hex. */
  wasm: digest,
  description: text,
  args: z.array(text),
  env: z.record(text, text),
  /** Null: the node's default backend. */
  backend: orNull(text),
  pool: plainName,
  isolation: z.enum(isolations),
  /** Concurrent runs of the task on one node. */
  concurrency: count,
  config: z.custom<JsonObject>(isJsonObject, 'must be a table'),
  limits,
  retry: z.strictObject({ max_attempts: count }),
  budgets: z.strictObject({ tokens_per_run: orNull(count), tokens_per_day: orNull(count) }),
};
const contentNames = Object.keys(contentFields) as (keyof typeof contentFields)[];
const contentSchema = z.object(contentFields);
const revisionFields = { ...contentFields, revision: count, digest, created_at_ms: ms, created_by: text };

/** What a node runs: every field is set, and the module is named by its digest. */
export interface TaskContent extends Readonly<Omit<z.output<typeof contentSchema>, 'args' | 'env' | 'config'>> {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly config: Readonly<JsonObject>;
}

/** One version of a task. It never changes; `digest` covers its content. */
export interface TaskRevision extends TaskContent {
  readonly revision: number;
  readonly digest: string;
  readonly created_at_ms: number;
  readonly created_by: string;
}

/** Strict: a node must not run a revision with fields that this version does not know. */
const revisionSchema: z.ZodType<TaskRevision> = z.strictObject(revisionFields);

const taskSchema = z.object({
  /** `namespace/name`. */
  task_id: text,
  namespace: plainName,
  name: plainName,
  /** The live revision. Null: the task was removed; the record remains so that its revision numbers are not reused. */
  live: orNull(revisionSchema),
  /** The highest revision number that was used. */
  last_revision: count,
  /** The file that the task comes from; null: it was applied. */
  from_file: orNull(text),
  /** Digest of the last content of that file, whatever is live now. */
  file_digest: orNull(digest),
  ...storeStamps,
});

/** A task in the registry, with its live revision. */
export interface TaskRecord extends Frozen<Omit<z.output<typeof taskSchema>, 'live'>> {
  readonly live: TaskRevision | null;
}

/** One revision of a task. It is written once. */
export interface TaskRevisionRecord extends TaskRevision, StoreStamps {
  /** `namespace/name@revision`. */
  readonly revision_id: string;
}

const revisionRecordSchema = z.strictObject({ ...revisionFields, revision_id: text, ...storeStamps });

export const taskKind: RecordKind<TaskRecord> = {
  name: 'task',
  idField: 'task_id',
  isId: isTaskId,
  repair: (id) => `apply it again with "spear tasks apply FILE", or remove it with "spear tasks rm ${id}"`,
  parse: parserOf(taskSchema, (task) => {
    const issues: RecordIssue[] = task.live === null ? [] : contentIssues(task.live, 'live.');
    if (taskId(task) !== task.task_id) issues.push({ path: 'task_id', message: 'belongs to another task' });
    if (task.live !== null && taskId(task.live) !== task.task_id) {
      issues.push({ path: 'live.name', message: 'belongs to another task' });
    }
    return issues;
  }),
};

export const taskRevisionKind: RecordKind<TaskRevisionRecord> = {
  name: 'task_revision',
  idField: 'revision_id',
  isId: (id) => /@[1-9]\d{0,14}$/.test(id) && isTaskId(id.replace(/@\d+$/, '')),
  repair: () => 'apply its task again with "spear tasks apply FILE"',
  parse: parserOf(revisionRecordSchema, (revision) => {
    const issues = contentIssues(revision, '');
    if (revisionId(taskId(revision), revision.revision) !== revision.revision_id) {
      issues.push({ path: 'revision_id', message: 'belongs to another revision' });
    }
    return issues;
  }),
};

/** `namespace/name`, as in messages and the audit log. */
export const taskId = ({ namespace, name }: Pick<TaskContent, 'namespace' | 'name'>): string => `${namespace}/${name}`;

export const revisionId = (task: string, revision: number): string => `${task}@${revision}`;

export function isTaskId(id: string): boolean {
  const [namespace = '', name = '', ...more] = id.split('/');
  return more.length === 0 && isNamespace(namespace) && isNamespace(name);
}

/** Digest of the content. Equal content has an equal digest; fields of a revision beyond its content are ignored. */
export function taskDigest(task: TaskContent): string {
  return hash('sha256', taskContentText(task));
}

/** The content as canonical JSON. */
export function taskContentText(task: TaskContent): string {
  return canonicalJson(taskContent(task) as unknown as JsonObject);
}

/** The content without the other fields of a revision. */
export function taskContent(task: TaskContent): TaskContent {
  return Object.fromEntries(contentNames.map((name) => [name, task[name]])) as unknown as TaskContent;
}

/** Why the content is too large for a registry; null: it is not. */
export function contentSizeProblem(content: TaskContent): string | null {
  const bytes = Buffer.byteLength(taskContentText(content));
  return bytes <= MAX_TASK_CONTENT_BYTES
    ? null
    : `the task has ${bytes} bytes without its module; the limit is ${MAX_TASK_CONTENT_BYTES}`;
}

function contentIssues(revision: TaskRevision, path: string): RecordIssue[] {
  const size = contentSizeProblem(revision);
  if (size !== null) return [{ path: '', message: size }];
  return taskDigest(revision) === revision.digest
    ? []
    : [{ path: `${path}digest`, message: 'does not match the content' }];
}
