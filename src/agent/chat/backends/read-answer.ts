import { errorCode, errorText } from '../../../base/errors.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';
import { knownSecrets } from '../../../server/secrets/redactor.ts';
import { BackendError } from '../backend.ts';
import type { CleanDeltas } from './clean-deltas.ts';
import { CompletionAssembly } from './completion-assembly.ts';
import type { BackendFailures } from './failures.ts';
import type { BodyReader, Headers } from './post.ts';
import { SseDecoder } from './sse.ts';

/** Error bodies beyond this are web pages; they are left unread. */
const MAX_ERROR_BODY_BYTES = 64 * 1024;
const END_OF_STREAM = '[DONE]';

/**
 * Makes a `chat.completion` body of a provider's 2xx answer, streamed or whole; of a stream `deltas` is told as it comes.
 * No secret of this process is in it: a gateway that repeats what it was sent must not give the guest its key.
 */
export function answerReader(
  headers: Headers,
  maxBytes: number,
  failures: BackendFailures,
  deltas: CleanDeltas | null = null,
): BodyReader<JsonObject> {
  const contentType = String(headers['content-type'] ?? '').toLowerCase();
  const isStream = contentType.includes('text/event-stream');
  return isStream ? new StreamReader(maxBytes, failures, deltas) : new WholeReader(maxBytes, failures);
}

/** The text of an error body; empty when it is too long or cannot be read to its end. */
export class ErrorTextReader implements BodyReader<string> {
  readonly #portions = new Portions(MAX_ERROR_BODY_BYTES);

  take(portion: Uint8Array): string | undefined {
    return this.#portions.add(portion) ? undefined : '';
  }

  end(): string {
    return this.#portions.text();
  }

  broken(): string {
    return '';
  }
}

class WholeReader implements BodyReader<JsonObject> {
  readonly #portions: Portions;
  readonly #failures: BackendFailures;

  constructor(maxBytes: number, failures: BackendFailures) {
    this.#portions = new Portions(maxBytes);
    this.#failures = failures;
  }

  take(portion: Uint8Array): undefined {
    if (!this.#portions.add(portion)) throw this.#failures.tooLarge(this.#portions.maxBytes);
  }

  end(): JsonObject {
    const text = this.#portions.text();
    const parsed = parseJson(text);
    if (parsed === undefined) throw this.#failures.badResponse('it is not JSON', text);
    if (!isJsonObject(parsed)) throw this.#failures.badResponse('it is not a JSON object', text);
    return knownSecrets.clean(completion(parsed, this.#failures), text);
  }

  broken(error: unknown): never {
    throw this.#failures.connectionLost(errorCode(error) ?? errorText(error));
  }
}

class StreamReader implements BodyReader<JsonObject> {
  readonly #decoder = new SseDecoder();
  readonly #assembly = new CompletionAssembly();
  readonly #maxBytes: number;
  readonly #failures: BackendFailures;
  readonly #deltas: CleanDeltas | null;
  #bytes = 0;

  constructor(maxBytes: number, failures: BackendFailures, deltas: CleanDeltas | null) {
    this.#maxBytes = maxBytes;
    this.#failures = failures;
    this.#deltas = deltas;
  }

  room(): Promise<void> | null {
    return this.#deltas === null ? null : this.#deltas.room();
  }

  take(portion: Uint8Array): JsonObject | undefined {
    this.#bytes += portion.length;
    if (this.#bytes > this.#maxBytes) throw this.#failures.tooLarge(this.#maxBytes);
    return this.#orBroken(() => {
      for (const data of this.#decoder.push(portion)) {
        if (data === END_OF_STREAM) return this.#finished();
        if (data !== '') this.#add(data);
      }
      return undefined;
    });
  }

  end(): JsonObject {
    return this.#orBroken(() => {
      const rest = this.#decoder.end();
      if (rest !== END_OF_STREAM) {
        if (rest !== undefined && parseJson(rest) !== undefined) this.#add(rest);
        // Not every provider says [DONE]; all of them give a finish reason.
        if (!this.#assembly.finished) throw this.#failures.streamBroken();
      }
      return this.#finished();
    });
  }

  broken(): never {
    throw this.#failures.streamBroken();
  }

  #add(data: string): void {
    const chunk = parseChunk(data, this.#failures);
    this.#assembly.add(chunk);
    this.#deltas?.add(chunk);
  }

  #finished(): JsonObject {
    const body = completion(this.#assembly.body(), this.#failures);
    this.#deltas?.end();
    return knownSecrets.clean(body);
  }

  /** A stream that the decoder cannot follow is no better than one that broke off. */
  #orBroken<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (error) {
      throw error instanceof BackendError ? error : this.#failures.streamBroken();
    }
  }
}

/** The portions of a body, up to a number of bytes. */
class Portions {
  readonly maxBytes: number;
  readonly #portions: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** False: that is too much. */
  add(portion: Uint8Array): boolean {
    this.#bytes += portion.length;
    this.#portions.push(portion);
    return this.#bytes <= this.maxBytes;
  }

  text(): string {
    const [only] = this.#portions;
    // Most come in one, which is a view of what was read: it is decoded as it is.
    if (this.#portions.length === 1 && only !== undefined) {
      return Buffer.from(only.buffer, only.byteOffset, only.byteLength).toString('utf8');
    }
    return Buffer.concat(this.#portions).toString('utf8');
  }
}

function completion(body: JsonObject, failures: BackendFailures): JsonObject {
  if (body.error !== undefined && body.error !== null) throw failures.errorObject(body.error);
  const first = Array.isArray(body.choices) ? body.choices[0] : undefined;
  if (!isJsonObject(first) || !isJsonObject(first.message)) throw failures.badResponse('it has no choices[0].message');
  return body;
}

function parseChunk(data: string, failures: BackendFailures): JsonObject {
  const chunk = parseJson(data);
  if (chunk === undefined) throw failures.badResponse('an event of its stream is not JSON', data);
  if (!isJsonObject(chunk)) throw failures.badResponse('an event of its stream is not a JSON object', data);
  if (chunk.error !== undefined && chunk.error !== null) throw failures.errorObject(chunk.error);
  return chunk;
}
