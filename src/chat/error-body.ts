import type { JsonObject } from '../base/json.ts';
import { BackendError } from './backend.ts';

/** Failures are bodies, so that a guest reads them as it reads an answer. */
export function errorBody(code: string, message: string, retryable: boolean, status?: number): JsonObject {
  return { error: { code, message, retryable, ...(status === undefined ? {} : { status }) } };
}

/** The one place where an error of ours becomes one that the guest sees. */
export function toErrorBody(error: unknown): JsonObject {
  if (error instanceof BackendError) return errorBody(error.code, error.message, error.retryable, error.status);
  if (error instanceof RangeError) return errorBody('bad_response', 'the answer is nested too deeply', false);
  return errorBody('internal_error', 'the host failed to run this send', false);
}

export const toolError = (code: string, message: string): JsonObject => ({ error: { code, message } });
