/** `invalid`: it cannot be taken over, and nothing was changed. `unknown`: there is none of that name or number. */
export type TaskErrorCode = 'invalid' | 'unknown' | 'not_stored';

/** Something about a task; the message names the file or task, what was found, and what to do. */
export class TaskError extends Error {
  readonly code: TaskErrorCode;

  constructor(code: TaskErrorCode, message: string) {
    super(message);
    this.name = 'TaskError';
    this.code = code;
  }
}
