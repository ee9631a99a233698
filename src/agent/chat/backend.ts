import type { JsonObject } from '../../base/json.ts';
import type { TimedRecord } from '../../runtime/durable/journal.ts';

/**
 * Where the model behind a backend accepts images of tool results: nowhere, in a user message that follows the results,
 * or in the message of the result itself.
 */
export type ImagePlacement = 'none' | 'user_message' | 'tool_message';

/** An OpenAI-compatible `/chat/completions` request: the backend adds nothing but what its transport needs. */
export interface ChatRequest extends JsonObject {
  messages: JsonObject[];
}

/** Takes an answer while it comes. */
export interface AnswerDeltas {
  text(delta: string): void;
  /** What a model thinks before it answers. */
  reasoning(delta: string): void;
  /** Null: go on. Else nobody reads so fast: wait for it before more is made, or read from the provider. */
  room(): Promise<void> | null;
}

/** Who asks, for a backend that wants to know. */
export interface AskedBy {
  /** The session under its name in events and in the audit trail. */
  readonly session: string;
  /** What is left of the deadline of its send. */
  readonly timeLeftMs: number;
  /** Takes the answer while it comes; a backend that cannot do that need not: the whole answer is told then. */
  readonly deltas?: AnswerDeltas | undefined;
  /** What the provider is told the request is a part of (W3C Trace Context). @default nothing */
  readonly traceparent?: string | undefined;
}

/** One source of model answers. It lives on the host thread and is shared by all sessions of the process. */
export interface ChatBackend {
  /** Its name in the config; shown to guests as `_spear.backend`. */
  readonly name: string;
  /** The model asked for when the session names none. */
  readonly model: string | undefined;
  /** @default 'none' */
  readonly images?: ImagePlacement | undefined;
  /** Answers with a whole `chat.completion` body, or throws a {@link BackendError} or the signal's reason. */
  complete(request: ChatRequest, signal: AbortSignal, by?: AskedBy): Promise<JsonObject>;
  /** Takes the records of a resumed run, for a backend whose answers depend on those it gave before. @default none */
  continueAfter?(records: readonly TimedRecord[]): void;
  close(): Promise<void>;
}

export interface BackendErrorDetails {
  readonly retryable: boolean;
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** A failure of the model's side, in the words the guest will read. Never holds a key. */
export class BackendError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  /** The provider's HTTP status, where there was one. */
  readonly status: number | undefined;
  /** How long the provider asked to be left alone, where it did. */
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
