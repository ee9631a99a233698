/**
 * `invalid`: it cannot be taken over. `unknown`: there is none of that name or number. `no_module`: there is none of that
 * digest. `elsewhere`: tasks are changed in another place. `busy`: others come first. In each case nothing was changed.
 */
export type TaskErrorCode = 'invalid' | 'unknown' | 'no_module' | 'not_stored' | 'elsewhere' | 'busy';

/** Something about a task; the message names the file or task, what was found, and what to do. */
export class TaskError extends Error {
  readonly code: TaskErrorCode;

  constructor(code: TaskErrorCode, message: string) {
    super(message);
    this.name = 'TaskError';
    this.code = code;
  }
}
