import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { hasControlCharacter } from '../../base/text.ts';
import type { Caller } from '../identity/caller.ts';
import type { Need } from '../identity/identity.ts';
import type { Identity } from '../records/permissions.ts';
import type { SpanContext } from '../telemetry/trace-context.ts';
import type { LongRequest } from './caller-limits.ts';
import type { HttpReply } from './http-reply.ts';
import type { RouteDoc } from './openapi.ts';
import { HttpProblem } from './problem.ts';

/** Abort reason of a request whose client disconnected. A constant, because creating it per request is expensive. */
export const GONE = new DOMException('the client disconnected', 'AbortError');

/** One HTTP request, as routes receive it. */
export interface HttpCall {
  readonly headers: IncomingHttpHeaders;
  readonly query: URLSearchParams;
  /** Decoded path parameters. */
  readonly params: Readonly<Record<string, string>>;
  /** The path parameter `{id}`; empty if the path has none. */
  readonly id: string;
  /** Identity of the caller; null only in routes that need no authentication. */
  readonly identity: Identity | null;
  /** The caller as functions that decide take it, and as the audit log has it. */
  readonly caller: Caller;
  /** Span of this request. Null if the request is not part of a trace, or tracing is off. */
  readonly trace: SpanContext | null;
  /** Calls `ended` once when the caller's token is no longer valid. Returns the function that stops watching. */
  whileValid(ended: () => void): () => void;
  /** At most `maxBytes`, else 413. */
  text(maxBytes: number): Promise<string>;
  bytes(maxBytes: number): Promise<Uint8Array>;
  /** For routes that stream. */
  readonly response: ServerResponse;
  /** Aborts when the client disconnects, its token is revoked, or the server closes. */
  readonly signal: AbortSignal;
}

export interface Route extends Need {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path parameters are written `{name}`; the listener checks `{namespace}` against the caller. */
  readonly path: string;
  /** A query with a body: it changes nothing, so the audit log has no event of it. @default false */
  readonly isQuestion?: true;
  /** Why the request occupies its connection for long. @default null */
  readonly longRequest?: (headers: IncomingHttpHeaders) => LongRequest | null;
  /** OpenAPI description. @default not described */
  readonly doc?: RouteDoc;
  /** `streamed`: the route wrote the response itself. */
  run(call: HttpCall): Promise<HttpReply | 'streamed'>;
}

/** A call of a route that requires authentication. */
export interface AuthenticatedCall extends HttpCall {
  readonly identity: Identity;
}

/** The caller of a route that requires authentication. */
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

export type WriteCondition =
  | { readonly kind: 'none' }
  | { readonly kind: 'exists' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'at_revision'; readonly modRevision: number };

/** Parses `If-Match` (a mod_revision, quoted or not, or `*`) and `If-None-Match: *`. @throws HttpProblem 400 */
export function writeCondition(headers: {
  readonly 'if-match'?: string | undefined;
  readonly 'if-none-match'?: string | undefined;
}): WriteCondition {
  const match = headers['if-match']?.trim();
  const noneMatch = headers['if-none-match']?.trim();
  if (match !== undefined && noneMatch !== undefined) throw malformed('If-Match and If-None-Match cannot be combined');
  if (noneMatch !== undefined) {
    if (noneMatch !== '*') throw malformed('If-None-Match must be *');
    return { kind: 'absent' };
  }
  if (match === undefined) return { kind: 'none' };
  if (match === '*') return { kind: 'exists' };
  const digits = /^"?([1-9]\d{0,15})"?$/.exec(match)?.[1];
  if (digits === undefined) throw malformed('If-Match must be a mod_revision, or *');
  return { kind: 'at_revision', modRevision: Number(digits) };
}

export function etag(modRevision: number): string {
  return `"${modRevision}"`;
}

function malformed(detail: string): HttpProblem {
  return new HttpProblem(400, 'invalid-precondition', detail);
}

interface RouteAddress {
  readonly method: string;
  readonly path: string;
}

interface Pattern<R> {
  readonly route: R;
  readonly parts: readonly { readonly text: string; readonly name: string | null }[];
}

/** Routes by path and method. Path parameters are written `{name}`. */
export class RouteTable<R extends RouteAddress> {
  /** Patterns by their number of path segments. */
  readonly #patterns = new Map<number, Pattern<R>[]>();

  constructor(routes: readonly R[]) {
    for (const route of routes) {
      const parts = route.path.split('/').map((text) => ({ text, name: /^\{(\w+)\}$/.exec(text)?.[1] ?? null }));
      const alike = this.#patterns.get(parts.length) ?? [];
      this.#patterns.set(parts.length, [...alike, { route, parts }]);
    }
  }

  /** The route and its decoded path parameters. @throws HttpProblem 404, 405 */
  find(method: string, path: string): { readonly route: R; readonly params: Record<string, string> } {
    const given = path.split('/');
    const wanted = method === 'HEAD' ? 'GET' : method;
    const others = new Set<string>();
    for (const { route, parts } of this.#patterns.get(given.length) ?? []) {
      const params = matched(parts, given);
      if (params === null) continue;
      if (route.method === wanted) return { route, params };
      others.add(route.method);
    }
    if (others.size === 0) throw new HttpProblem(404, 'no-such-path', 'no such path; see /openapi.json');
    const allow = [...others].join(', ');
    throw new HttpProblem(405, 'method-not-allowed', `method not allowed; this path allows ${allow}`, {
      headers: { allow },
    });
  }
}

function matched(parts: Pattern<unknown>['parts'], given: readonly string[]): Record<string, string> | null {
  const params: Record<string, string> = {};
  for (const [index, { text, name }] of parts.entries()) {
    const found = given[index] as string;
    if (name === null) {
      if (text !== found) return null;
      continue;
    }
    try {
      params[name] = decodeURIComponent(found);
    } catch {
      return null;
    }
    if (params[name] === '' || hasControlCharacter(params[name])) return null;
  }
  return params;
}
