import type { IncomingMessage, ServerResponse } from 'node:http';
import type { z } from 'zod';
import { HttpProblem } from '../../sms/http/problem.ts';
import type { SpanContext } from '../../telemetry/trace-context.ts';
import type { NodeIdentity, NodeRole } from '../node-access.ts';

export interface NodeReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** One request as a route sees it. */
export interface NodeCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** The variable parts of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** Somebody without a token: only where a route is for anybody. */
  readonly caller: NodeIdentity;
  /** The span of this request, where it came as a part of a trace; null: it did not, or nobody traces. */
  readonly trace: SpanContext | null;
  /** At most `maxBytes`, else 413. */
  bytes(maxBytes: number): Promise<Uint8Array>;
  /** Aborts when the client has gone or the node ends. */
  readonly signal: AbortSignal;
}

/** What the description of the API says of a route. */
export interface RouteDoc {
  readonly summary: string;
  /** Names of query parameters and headers, with what they are for. */
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: { readonly type: string; readonly schema?: z.ZodType };
  readonly answers: Readonly<
    Record<number, { readonly what: string; readonly type?: string; readonly schema?: z.ZodType }>
  >;
}

export interface NodeRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Its variable parts are `{name}`; `{namespace}` is checked against the caller's. */
  readonly path: string;
  readonly needs: NodeRole | 'anybody';
  readonly doc: RouteDoc;
  /** `streamed`: the route has answered by itself. */
  run(call: NodeCall): Promise<NodeReply | 'streamed'>;
}

export function jsonReply(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): NodeReply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: `${JSON.stringify(value)}\n` };
}

export async function readBytes(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () =>
    new HttpProblem(413, 'body-too-large', `the body has more than ${maxBytes} bytes`, {
      headers: { connection: 'close' },
    });
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The variable parts; null where the path is another one. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    const text = given[index] ?? '';
    if (name === undefined) {
      if (part !== text) return null;
      continue;
    }
    try {
      params[name] = decodeURIComponent(text);
    } catch {
      return null;
    }
    if (params[name] === '') return null;
  }
  return params;
}
