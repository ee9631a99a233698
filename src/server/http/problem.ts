import { STATUS_CODES } from 'node:http';
import { QueueError, type QueueErrorCode } from '../queue/run-queue.ts';
import type { RecordIssue } from '../records/record-kind.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import { InvalidRecord } from '../store/record-write.ts';
import { StoreError, type StoreErrorCode } from '../store/store.ts';
import { TaskError, type TaskErrorCode } from '../tasks/task-book.ts';
import type { HttpReply } from './http-reply.ts';

export interface FieldError {
  readonly field: string;
  readonly detail: string;
}

/** An HTTP error response in the form of RFC 9457. `kind` is the last part of its type, which clients may rely on. */
export class HttpProblem extends Error {
  readonly status: number;
  readonly kind: string;
  readonly errors: readonly FieldError[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    kind: string,
    detail: string,
    more: { readonly errors?: readonly FieldError[]; readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(detail);
    this.name = 'HttpProblem';
    this.status = status;
    this.kind = kind;
    this.errors = more.errors ?? [];
    this.headers = more.headers ?? {};
  }

  toReply(): HttpReply {
    const body = {
      type: `urn:spear:problem:${this.kind}`,
      title: STATUS_CODES[this.status] ?? 'Error',
      status: this.status,
      detail: this.message,
      ...(this.errors.length > 0 ? { errors: this.errors } : {}),
    };
    return {
      status: this.status,
      headers: { 'content-type': 'application/problem+json', ...this.headers },
      body: `${knownSecrets.json(body)}\n`,
    };
  }
}

const storeProblems: Readonly<Record<StoreErrorCode, readonly [status: number, kind: string]>> = {
  not_found: [404, 'no-such-server'],
  already_exists: [409, 'server-exists'],
  revision_mismatch: [412, 'revision-mismatch'],
  not_stored: [507, 'not-stored'],
  outcome_unknown: [504, 'outcome-unknown'],
  not_visible: [504, 'stored-not-visible'],
  not_current: [503, 'not-current'],
  compacted: [410, 'revision-compacted'],
  future_revision: [410, 'revision-unknown'],
  lagging: [503, 'lagging'],
  closed: [503, 'shutting-down'],
};

const taskProblems: Readonly<Record<TaskErrorCode, readonly [status: number, kind: string]>> = {
  invalid: [400, 'invalid-task'],
  unknown: [404, 'no-such-task'],
  no_module: [404, 'no-such-blob'],
  elsewhere: [409, 'tasks-elsewhere'],
  busy: [503, 'too-many-tasks'],
  not_stored: [507, 'not-stored'],
};

const RETRY_AFTER_S = '1';

const queueProblems: Readonly<Record<QueueErrorCode, readonly [status: number, kind: string]>> = {
  full: [429, 'line-full'],
  other_input: [422, 'key-used'],
  not_stored: [507, 'not-stored'],
  unavailable: [503, 'queue-unavailable'],
  closed: [503, 'shutting-down'],
};

function queueProblem({ code, message }: QueueError): HttpProblem {
  const [status, kind] = queueProblems[code];
  if (code === 'other_input') {
    return new HttpProblem(status, kind, `the Idempotency-Key was already used with a different input: ${message}`);
  }
  return new HttpProblem(status, kind, message, { headers: { 'retry-after': RETRY_AFTER_S } });
}

/** The problem for an error of the stores, queues and tasks. Null: the error is internal and must not be shown to clients. */
export function problemOf(error: unknown): HttpProblem | null {
  if (error instanceof HttpProblem) return error;
  if (error instanceof StoreError) {
    const [status, kind] = storeProblems[error.code];
    return new HttpProblem(status, kind, error.message);
  }
  if (error instanceof TaskError) {
    const [status, kind] = taskProblems[error.code];
    return new HttpProblem(
      status,
      kind,
      error.message,
      status === 503 ? { headers: { 'retry-after': RETRY_AFTER_S } } : {},
    );
  }
  if (error instanceof QueueError) return queueProblem(error);
  if (error instanceof InvalidRecord) return invalidRecord(error.issues);
  return null;
}

export function invalidRecord(issues: readonly RecordIssue[]): HttpProblem {
  const errors = issues.map(fieldError);
  const [first] = errors;
  const detail = first === undefined ? 'the body is not valid' : `${first.field || 'the body'}: ${first.detail}`;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new HttpProblem(400, 'invalid-record', detail + more, { errors });
}

export function fieldError({ path, message }: RecordIssue): FieldError {
  return { field: path, detail: message };
}
