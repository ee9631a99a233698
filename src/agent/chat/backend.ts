import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { TimedRecord } from '../../runtime/durable/journal.ts';

/**
 * Where the model behind a backend accepts images of tool results: nowhere, in a user message that follows the results,
 * or in the message of the result itself.
 */
export type ImagePlacement = 'none' | 'user_message' | 'tool_message';

/** OpenAI-compatible `/chat/completions` request. The backend adds only what its transport needs. */
export interface ChatRequest extends JsonObject {
  messages: JsonObject[];
}

/** Receives an answer while it is generated. */
export interface AnswerDeltas {
  text(delta: string): void;
  /** Reasoning of the model before its answer. */
  reasoning(delta: string): void;
  /** Backpressure: null if there is room, else a promise to await before reading more from the provider. */
  room(): Promise<void> | null;
}

/** Context of a request. */
export interface AskedBy {
  /** Name of the session in events and in the audit log. */
  readonly session: string;
  /** Time left until the deadline of the send. */
  readonly timeLeftMs: number;
  /** Receives the answer while it is generated, if the backend supports that; else the whole answer is emitted. */
  readonly deltas?: AnswerDeltas | undefined;
  /** W3C Trace Context header for the provider. @default none */
  readonly traceparent?: string | undefined;
}

/** Source of model answers, on the host thread, shared by all sessions of the process. */
export interface ChatBackend {
  /** Name in the config; guests see it as `_spear.backend`. */
  readonly name: string;
  /** Model of sessions that name none. */
  readonly model: string | undefined;
  /** @default 'none' */
  readonly images?: ImagePlacement | undefined;
  /** Returns a whole `chat.completion` body. Throws a {@link BackendError} or the signal's reason. */
  complete(request: ChatRequest, signal: AbortSignal, by?: AskedBy): Promise<JsonObject>;
  /** Restores state from the records of a resumed run, for a backend whose answers depend on earlier ones. @default none */
  continueAfter?(records: readonly TimedRecord[]): void;
  close(): Promise<void>;
}

export interface BackendErrorDetails {
  readonly retryable: boolean;
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** Failure of a model backend, as the guest sees it. Never contains a key. */
export class BackendError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  /** HTTP status of the provider, if any. */
  readonly status: number | undefined;
  /** Retry-After of the provider, if any. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, details: BackendErrorDetails) {
    super(message, { cause: details.cause });
    this.name = 'BackendError';
    this.code = code;
    this.retryable = details.retryable;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** Error body, which a guest reads like an answer. */
export function errorBody(code: string, message: string, retryable: boolean): { error: JsonObject } {
  return { error: { code, message, retryable } };
}

/** Converts any error of a send to the body that the guest sees. */
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

/** The text of a message: its string, or the text parts of a list of parts, one line each. */
export function messageText(message: JsonObject | undefined): string {
  const content: JsonValue | undefined = message?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.flatMap((part) => (isJsonObject(part) && typeof part.text === 'string' ? [part.text] : [])).join('\n');
}

/** Describes a wait for a model, for users. */
export function answerOf(backend: string, model: unknown): string {
  const named = typeof model === 'string' ? ` (${model})` : '';
  return `a response of backend ${JSON.stringify(backend)}${named}`;
}
