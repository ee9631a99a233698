import { Code, ConnectError, type ContextValues, createContextKey } from '@connectrpc/connect';
import type { AuthFailure } from '../../server/identity/access.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { Identity } from '../../server/records/permissions.ts';
import { wirePath } from '../../server/records/wire.ts';
import { knownSecrets } from '../../server/secrets/redactor.ts';
import { InvalidRecord } from '../../server/store/record-write.ts';
import { StoreError, type StoreErrorCode } from '../../server/store/store.ts';
import { TaskError, type TaskErrorCode } from '../../server/tasks/task-book.ts';

/** Identity of the caller; a `AuthFailure` only in methods that need no authentication. */
export const grpcIdentity = createContextKey<Identity | AuthFailure>('missing', { description: 'identity' });

/** The caller as functions that decide take it, and as the audit log has it. Set by the listener. */
export const grpcCaller = createContextKey<Caller | null>(null, { description: 'caller' });

export function callerOf(values: ContextValues): Caller {
  const caller = values.get(grpcCaller);
  if (caller === null) throw new Error('the listener did not set the caller');
  return caller;
}

/** For methods that are not for anybody. */
export function identityOf(values: ContextValues): Identity {
  const who = values.get(grpcIdentity);
  if (typeof who === 'string') throw new Error('a method without authentication needs the identity of the caller');
  return who;
}

const storeCodes: Readonly<Record<StoreErrorCode, Code>> = {
  not_found: Code.NotFound,
  already_exists: Code.AlreadyExists,
  revision_mismatch: Code.Aborted,
  not_stored: Code.ResourceExhausted,
  outcome_unknown: Code.DeadlineExceeded,
  not_visible: Code.DeadlineExceeded,
  not_current: Code.Unavailable,
  compacted: Code.FailedPrecondition,
  future_revision: Code.FailedPrecondition,
  lagging: Code.Aborted,
  closed: Code.Unavailable,
};

const taskCodes: Readonly<Record<TaskErrorCode, Code>> = {
  invalid: Code.InvalidArgument,
  unknown: Code.NotFound,
  no_module: Code.NotFound,
  elsewhere: Code.FailedPrecondition,
  busy: Code.ResourceExhausted,
  not_stored: Code.ResourceExhausted,
};

/** The status of a failed call. What is not one of ours says nothing of itself; `unexpected` gets to see it. */
export function toStatus(error: unknown, unexpected: (error: unknown) => void): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof StoreError) return new ConnectError(knownSecrets.redact(error.message), storeCodes[error.code]);
  if (error instanceof TaskError) return new ConnectError(knownSecrets.redact(error.message), taskCodes[error.code]);
  if (error instanceof InvalidRecord) {
    const issues = error.issues.map(
      ({ path, message }) => `record${path === '' ? '' : `.${wirePath(path)}`}: ${message}`,
    );
    return new ConnectError(knownSecrets.redact(issues.join('; ')), Code.InvalidArgument);
  }
  unexpected(error);
  return new ConnectError('internal error; see the log of the registry', Code.Internal);
}
