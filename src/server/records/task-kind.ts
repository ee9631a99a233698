import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { type LimitName, limitNames } from '../../runtime/port/limits.ts';
import { isNamespace } from './permissions.ts';
import type { RecordIssue } from './record.ts';
import type { Parsed, RecordKind, StoreStamps } from './record-kind.ts';
import { deepFreeze, MAX_REPORTED } from './record-parse.ts';
import { checked, readFields } from './record-schema.ts';
import { sha256Problem } from './record-values.ts';
import { isolations, type TaskContent, type TaskRevision, taskId } from './task.ts';
import { taskContentText, taskDigest } from './task-digest.ts';

/** A task as a registry has it: what is live, whole. */
export interface TaskRecord extends StoreStamps {
  /** `namespace/name`. */
  readonly task_id: string;
  readonly namespace: string;
  readonly name: string;
  /** Null: it was removed. What is left keeps its numbers from being given to something else. */
  readonly live: TaskRevision | null;
  /** The highest number that was given. */
  readonly last_revision: number;
  /** The file that it comes from; null: it was applied. */
  readonly from_file: string | null;
  /** Of what the file last said, whatever is live now. */
  readonly file_digest: string | null;
}

/** One revision of a task. It is written once. */
export interface TaskRevisionRecord extends TaskRevision, StoreStamps {
  /** `namespace/name@revision`. */
  readonly revision_id: string;
}

/** More than anybody writes by hand, and few enough that every node can have all tasks in memory. */
export const MAX_TASK_CONTENT_BYTES = 256 * 1024;

export const revisionId = (task: string, revision: number): string => `${task}@${revision}`;

const plainName = checked((text) =>
  isNamespace(text) ? null : 'must be 1 to 63 characters of a-z, 0-9 and -, and not "constructor"',
);
const text = z.string();
const count = z.int().min(1);
const ms = z.int().min(0);
const orNull = <T extends z.ZodType>(schema: T) => z.union([schema, z.null()]);
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
  wasm: checked(sha256Problem),
  description: text,
  args: z.array(text),
  env: z.record(text, text),
  backend: orNull(text),
  pool: plainName,
  isolation: z.enum(isolations),
  concurrency: count,
  config: z.custom<JsonObject>(isJsonObject, 'must be a table'),
  limits,
  retry: z.strictObject({ max_attempts: count }),
  budgets: z.strictObject({ tokens_per_run: orNull(count), tokens_per_day: orNull(count) }),
};
/** Strict: what is not known here cannot be kept by who runs it. */
const revision: z.ZodType<TaskRevision> = z.strictObject({
  ...contentFields,
  revision: count,
  digest: checked(sha256Problem),
  created_at_ms: ms,
  created_by: text,
});
const stamps = { updated_at_ms: ms.default(0), mod_revision: ms.default(0) };

const recordSchema = z.object({
  task_id: text,
  namespace: plainName,
  name: plainName,
  live: orNull(revision),
  last_revision: count,
  from_file: orNull(text),
  file_digest: orNull(checked(sha256Problem)),
  ...stamps,
});

const revisionRecordSchema = z.strictObject({
  ...contentFields,
  revision: count,
  digest: checked(sha256Problem),
  created_at_ms: ms,
  created_by: text,
  revision_id: text,
  ...stamps,
});

export const taskKind: RecordKind<TaskRecord> = {
  name: 'task',
  idField: 'task_id',
  isId: isTaskId,
  mending: (id) => `apply it again with "spear tasks apply FILE", or remove it with "spear tasks rm ${id}"`,
  parse: (input): Parsed<TaskRecord> => {
    const read = readFields(recordSchema, input);
    if ('issues' in read) return { ok: false, issues: read.issues.slice(0, MAX_REPORTED) };
    const { shape } = read;
    const issues: RecordIssue[] = shape.live === null ? [] : contentIssues(shape.live, 'live.');
    if (taskId(shape) !== shape.task_id) issues.push({ path: 'task_id', message: 'belongs to another task' });
    if (shape.live !== null && taskId(shape.live) !== shape.task_id) {
      issues.push({ path: 'live.name', message: 'belongs to another task' });
    }
    return issues.length > 0 ? { ok: false, issues } : { ok: true, record: deepFreeze(shape), warnings: [] };
  },
};

export const taskRevisionKind: RecordKind<TaskRevisionRecord> = {
  name: 'task_revision',
  idField: 'revision_id',
  isId: (id) => /@[1-9]\d{0,14}$/.test(id) && isTaskId(id.replace(/@\d+$/, '')),
  mending: () => 'apply its task again with "spear tasks apply FILE"',
  parse: (input): Parsed<TaskRevisionRecord> => {
    const read = readFields(revisionRecordSchema, input);
    if ('issues' in read) return { ok: false, issues: read.issues.slice(0, MAX_REPORTED) };
    const { shape } = read;
    const issues = contentIssues(shape, '');
    if (revisionId(taskId(shape), shape.revision) !== shape.revision_id) {
      issues.push({ path: 'revision_id', message: 'belongs to another revision' });
    }
    return issues.length > 0 ? { ok: false, issues } : { ok: true, record: deepFreeze(shape), warnings: [] };
  },
};

export function isTaskId(id: string): boolean {
  const [namespace = '', name = '', ...more] = id.split('/');
  return more.length === 0 && isNamespace(namespace) && isNamespace(name);
}

/** Why a registry would not keep it; null: it would. */
export function contentSizeProblem(content: TaskContent): string | null {
  const bytes = Buffer.byteLength(taskContentText(content));
  return bytes <= MAX_TASK_CONTENT_BYTES
    ? null
    : `the task has ${bytes} bytes without its module; the limit is ${MAX_TASK_CONTENT_BYTES}`;
}

function contentIssues(of: TaskRevision, at: string): RecordIssue[] {
  const size = contentSizeProblem(of);
  if (size !== null) return [{ path: '', message: size }];
  return taskDigest(of) === of.digest ? [] : [{ path: `${at}digest`, message: 'does not match the content' }];
}
