import { Code, ConnectError } from '@connectrpc/connect';
import { wirePath } from '../../server/records/wire.ts';
import { knownSecrets } from '../../server/secrets/redactor.ts';
import { InvalidRecord } from '../../server/store/record-write.ts';
import { StoreError, type StoreErrorCode } from '../../server/store/store.ts';
import { TaskError, type TaskErrorCode } from '../../server/tasks/task-error.ts';

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
