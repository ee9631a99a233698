import type { Readable } from 'node:stream';
import { errorCode, errorText } from '../../base/error-text.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import { BackendError } from '../backend.ts';
import { CompletionAssembly } from './completion-assembly.ts';
import type { BackendFailures } from './failures.ts';
import { SseDecoder } from './sse.ts';

/** Error bodies beyond this are web pages; they are left unread. */
const MAX_ERROR_BODY_BYTES = 64 * 1024;
/** What may follow the end of a stream without costing the connection. */
const MAX_TRAILING_BYTES = 4096;
const MAX_TRAILING_MS = 1000;
const END_OF_STREAM = '[DONE]';

export interface AnswerBody {
  body: Readable;
  contentType: string;
}

/** Reads a provider's 2xx answer, streamed or whole, into a `chat.completion` body. */
export async function readAnswer(answer: AnswerBody, maxBytes: number, failures: BackendFailures): Promise<JsonObject> {
  const streamed = answer.contentType.includes('text/event-stream');
  tolerateLateErrors(answer.body);
  try {
    const body = streamed
      ? await readStream(answer.body, maxBytes, failures)
      : parseWhole((await readBytes(answer.body, maxBytes, failures)).toString('utf8'), failures);
    if (body.error !== undefined && body.error !== null) throw failures.errorObject(body.error);
    const first = Array.isArray(body.choices) ? body.choices[0] : undefined;
    if (!isJsonObject(first) || !isJsonObject(first.message)) {
      throw failures.badResponse('it has no choices[0].message');
    }
    return body;
  } catch (error) {
    answer.body.destroy();
    if (error instanceof BackendError) throw error;
    throw streamed ? failures.streamBroken() : failures.connectionLost(reasonOf(error));
  }
}

/** The text of an error body; empty when it is too long or cannot be read to its end. */
export async function readErrorText(body: Readable, failures: BackendFailures): Promise<string> {
  tolerateLateErrors(body);
  try {
    return (await readBytes(body, MAX_ERROR_BODY_BYTES, failures)).toString('utf8');
  } catch {
    body.destroy();
    return '';
  }
}

async function readBytes(body: Readable, maxBytes: number, failures: BackendFailures): Promise<Buffer> {
  const portions: Uint8Array[] = [];
  for await (const portion of portionsOf(body, maxBytes, failures)) portions.push(portion);
  return Buffer.concat(portions);
}

function parseWhole(text: string, failures: BackendFailures): JsonObject {
  const parsed = parseJson(text);
  if (parsed === undefined) throw failures.badResponse('it is not JSON', text);
  if (!isJsonObject(parsed)) throw failures.badResponse('it is not a JSON object', text);
  return parsed;
}

async function readStream(body: Readable, maxBytes: number, failures: BackendFailures): Promise<JsonObject> {
  const decoder = new SseDecoder();
  const assembly = new CompletionAssembly();
  for await (const portion of portionsOf(body, maxBytes, failures)) {
    for (const data of decoder.push(portion)) {
      if (data === END_OF_STREAM) {
        drain(body);
        return assembly.body();
      }
      if (data !== '') assembly.add(parseChunk(data, failures));
    }
  }
  const rest = decoder.end();
  if (rest === END_OF_STREAM) return assembly.body();
  if (rest !== undefined && parseJson(rest) !== undefined) assembly.add(parseChunk(rest, failures));
  // Not every provider says [DONE]; all of them give a finish reason.
  if (!assembly.finished) throw failures.streamBroken();
  return assembly.body();
}

function parseChunk(data: string, failures: BackendFailures): JsonObject {
  const chunk = parseJson(data);
  if (chunk === undefined) throw failures.badResponse('an event of its stream is not JSON', data);
  if (!isJsonObject(chunk)) throw failures.badResponse('an event of its stream is not a JSON object', data);
  if (chunk.error !== undefined && chunk.error !== null) throw failures.errorObject(chunk.error);
  return chunk;
}

/** Leaves the body as it is when the reader stops early: who stops decides whether the connection lives on. */
async function* portionsOf(body: Readable, maxBytes: number, failures: BackendFailures): AsyncGenerator<Uint8Array> {
  let total = 0;
  for await (const portion of body.iterator({ destroyOnReturn: false })) {
    total += portion.length;
    if (total > maxBytes) throw failures.tooLarge(maxBytes);
    yield portion;
  }
}

// The reader gets the errors it waits for; one that comes when nobody reads any more would end the process.
function tolerateLateErrors(body: Readable): void {
  body.on('error', () => {});
}

/** Reads on to the end of a finished answer in the background, so that its connection can be used again. */
function drain(body: Readable): void {
  let rest = MAX_TRAILING_BYTES;
  const timer = setTimeout(() => body.destroy(), MAX_TRAILING_MS);
  timer.unref();
  body.once('close', () => clearTimeout(timer));
  body.on('data', (portion: Uint8Array) => {
    rest -= portion.length;
    if (rest < 0) body.destroy();
  });
}

function reasonOf(error: unknown): string {
  return errorCode(error) ?? errorText(error);
}
