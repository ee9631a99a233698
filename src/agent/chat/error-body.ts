import type { JsonObject } from '../../base/json.ts';
import { BackendError } from './backend.ts';

/** Failures are bodies, so that a guest reads them as it reads an answer. */
export function errorBody(code: string, message: string, retryable: boolean): { error: JsonObject } {
  return { error: { code, message, retryable } };
}

/** The one place where an error of ours becomes one that the guest sees. */
export function toErrorBody(error: unknown): JsonObject {
  if (error instanceof BackendError) return backendErrorBody(error);
  if (error instanceof RangeError) return errorBody('bad_response', 'the answer is nested too deeply', false);
  return errorBody('internal_error', 'the host failed to run this send', false);
}

function backendErrorBody({ code, message, retryable, status, retryAfterMs }: BackendError): JsonObject {
  const body = errorBody(code, message, retryable);
  if (status !== undefined) body.error.status = status;
  if (retryAfterMs !== undefined) body.error.retry_after_ms = retryAfterMs;
  return body;
}

export const toolError = (code: string, message: string): JsonObject => ({ error: { code, message } });
