import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type { Caller } from '../identity/caller.ts';
import type { Identity } from '../identity/identity.ts';
import type { SpanContext } from '../telemetry/trace-context.ts';
import { HttpProblem } from './problem.ts';

/** Why a request is over whose client has gone. Made once: most have gone because they were answered. */
export const GONE = new DOMException('the client disconnected', 'AbortError');

/** One request as a route sees it. */
export interface HttpCall {
  readonly headers: IncomingHttpHeaders;
  readonly query: URLSearchParams;
  /** The variable parts of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The one that is called `{id}`; empty where there is none. */
  readonly id: string;
  /** Identity of the caller; null only in routes that need no authentication. */
  readonly identity: Identity | null;
  /** The caller as functions that decide take it, and as the audit log has it. */
  readonly caller: Caller;
  /** The span of this request, where it came as a part of a trace; null: it did not, or nobody traces. */
  readonly trace: SpanContext | null;
  /** At most `maxBytes`, else 413. */
  text(maxBytes: number): Promise<string>;
  bytes(maxBytes: number): Promise<Uint8Array>;
  /** For answers that never end. */
  readonly response: ServerResponse;
  /** Aborts when the client has gone or the server ends. */
  readonly signal: AbortSignal;
}

/** For routes that are not for anybody. */
export function identityOf({ identity }: HttpCall): Identity {
  if (identity === null) throw new Error('a route without authentication needs the identity of the caller');
  return identity;
}

export function requireContentType(call: HttpCall, allowed: readonly string[]): string {
  const type = (call.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (allowed.includes(type)) return type;
  throw new HttpProblem(415, 'unsupported-content-type', `the content-type must be ${allowed.join(' or ')}`);
}

export async function jsonBody(call: HttpCall, maxBytes: number): Promise<JsonObject> {
  requireContentType(call, ['application/json']);
  const value = parseBody(await call.text(maxBytes));
  if (isJsonObject(value)) return value;
  throw new HttpProblem(400, 'invalid-body', 'the body must be a JSON object');
}

export function parseBody(text: string): JsonValue {
  const value = parseJson(text);
  if (value === undefined) throw new HttpProblem(400, 'invalid-body', 'the body is not valid JSON');
  return value;
}

export function utf8Text(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new HttpProblem(400, 'invalid-body', 'the body is not UTF-8 text');
  }
}
