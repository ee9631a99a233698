import type { JsonObject } from '../base/json.ts';

/** An OpenAI-compatible `/chat/completions` request: the backend adds nothing but what its transport needs. */
export interface ChatRequest extends JsonObject {
  messages: JsonObject[];
}

/** One source of model answers. It lives on the host thread and is shared by all sessions of the process. */
export interface ChatBackend {
  /** Its name in the config; shown to guests as `_spear.backend`. */
  readonly name: string;
  /** The model asked for when the session names none. */
  readonly model: string | undefined;
  /** Answers with a whole `chat.completion` body, or throws a {@link BackendError} or the signal's reason. */
  complete(request: ChatRequest, signal: AbortSignal): Promise<JsonObject>;
  close(): Promise<void>;
}

/** A failure of the model's side, in the words the guest will read. Never holds a key. */
export class BackendError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  /** The provider's HTTP status, where there was one. */
  readonly status: number | undefined;

  constructor(code: string, message: string, details: { retryable: boolean; status?: number; cause?: unknown }) {
    super(message, { cause: details.cause });
    this.name = 'BackendError';
    this.code = code;
    this.retryable = details.retryable;
    this.status = details.status;
  }
}
