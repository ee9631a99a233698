import { errorCode } from './error-text.ts';

const ERRNO = /^E[A-Z0-9]+$/;
/** What Node says of a thread that could not start ends with the code of the system's error. */
const THREAD_NOT_STARTED = 'ERR_WORKER_INIT_FAILED';
/** An error has a cause, which has a cause; no chain of ours is longer. */
const MAX_CAUSES = 8;

/** Resources that a process or machine may lack for a while, and the words for each. */
const exhausted = new Map([
  ['EMFILE', 'the process has no free file descriptor (RLIMIT_NOFILE)'],
  ['ENFILE', 'the system has no free file descriptor'],
  ['ENOMEM', 'the system has no free memory'],
  ['ENOSPC', 'the disk is full'],
  ['EDQUOT', 'the disk quota is exceeded'],
]);

/** Code of the system error behind an error, such as `EMFILE`: its own or that of a cause; null: there is none. */
export function systemErrorOf(error: unknown): string | null {
  for (let at = error, left = MAX_CAUSES; at != null && left > 0; left--) {
    const code = errorCode(at);
    if (code !== undefined && ERRNO.test(code)) return code;
    if (code === THREAD_NOT_STARTED) return /\b(E[A-Z0-9]+)$/.exec(String((at as Error).message))?.[1] ?? null;
    at = (at as { readonly cause?: unknown }).cause;
  }
  return null;
}

/** Which resource of the process or machine is exhausted, in words; null: the code means something else. */
export const exhaustedResource = (code: string | null): string | null => exhausted.get(code ?? '') ?? null;
