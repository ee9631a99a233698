import type { Client, StandardSchemaV1 } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { QuestionTarget } from './elicitation/question.ts';
import type { CallHeaders } from './header-parameters.ts';
import { RpcError } from './transport/transport.ts';

/*
 * Sending `tools/call`: the sender interface, the sender that goes through the MCP library, and what the senders of the
 * transports share (pending requests by id, request texts).
 *
 * Invariants
 * - A request is sent at most once; nothing here retries.
 * - An observer receives exactly one of `onResult` and `onError`, or neither after `cancel`.
 * - Ids of own requests are texts (`spear-1`); the library numbers its requests, so the two never collide.
 * - Values stay objects until `callText` and `requestText` serialise the whole message.
 *
 * Not handled here: deadlines, slots and sessions (server-call.ts), reconnects (connection.ts).
 */

/** Our own deadlines decide; the library's timer must never fire first. */
export const NO_LIBRARY_TIMEOUT_MS = 2 ** 31 - 1;

/** Accepts any object: the library would reject a whole tools/list for one odd tool, so Spear checks results itself. */
export const anyObject: StandardSchemaV1<unknown, JsonObject> = {
  '~standard': {
    version: 1,
    vendor: 'spear',
    validate: (value) => (isJsonObject(value) ? { value } : { issues: [{ message: 'not an object' }] }),
  },
};

/** Progress of a call as its server reports it. */
export interface CallProgress {
  readonly progress: number;
  /** Null: the server gives no total. */
  readonly total: number | null;
}

/** Receives the outcome of one request. */
export interface RequestObserver extends QuestionTarget {
  onResult(result: JsonObject): void;
  /** `error` is whatever was thrown; the session converts it. */
  onError(error: unknown): void;
  /** Whether the server is asked for progress notifications. */
  readonly wantsProgress: boolean;
  onProgress(progress: CallProgress): void;
}

/** One `tools/call`. */
export interface ToolRequest {
  readonly tool: string;
  readonly args: JsonObject;
  /** HTTP headers; other transports ignore them. */
  readonly headers: CallHeaders;
  /** Input responses and server state of a continued call; null on the first request. */
  readonly continuation: JsonObject | null;
  /** Added to `_meta` of the request. */
  readonly meta: JsonObject | undefined;
}

/**
 * Sends requests over one connection. Own transports implement it beside the library, whose request handling costs more
 * than everything else that Spear does for a call.
 *
 * perf: bench/topics/mcp.ts "stdio, one at a time"
 */
export interface CallSender {
  /** Sends a tool call synchronously and returns the id that cancels it. @throws whatever prevents sending */
  call(request: ToolRequest, observer: RequestObserver): string;
  /** Sends any other request in the same way. */
  request(method: string, params: JsonObject, observer: RequestObserver): string;
  /** Notifies the server. The observer receives nothing more. */
  cancel(id: string, reason: string): void;
}

/** Null: the notification has no readable progress. */
function readProgress(params: unknown): CallProgress | null {
  if (!isJsonObject(params) || typeof params.progress !== 'number') return null;
  return { progress: params.progress, total: typeof params.total === 'number' ? params.total : null };
}

/** Sends through the library: reads and prompts always, tool calls over a transport that is no {@link CallSender}. */
export class LibraryCalls implements CallSender {
  readonly #client: Client;
  readonly #open = new Map<string, { readonly observer: RequestObserver; readonly controller: AbortController }>();
  #next = 1;

  constructor(client: Client) {
    this.#client = client;
  }

  call({ tool, args, meta }: ToolRequest, observer: RequestObserver): string {
    const about = meta === undefined ? {} : { _meta: meta };
    return this.request('tools/call', { name: tool, arguments: args, ...about }, observer);
  }

  request(method: string, params: JsonObject, observer: RequestObserver): string {
    const id = String(this.#next++);
    const controller = new AbortController();
    this.#open.set(id, { observer, controller });
    const onprogress = (params: unknown) => {
      const progress = readProgress(params);
      if (progress !== null) observer.onProgress(progress);
    };
    const options = {
      signal: controller.signal,
      timeout: NO_LIBRARY_TIMEOUT_MS,
      allowInputRequired: true,
      ...(observer.wantsProgress ? { onprogress } : {}),
    };
    this.#client.request({ method, params }, anyObject, options).then(
      (result) => {
        if (this.#open.delete(id)) observer.onResult(result);
      },
      (error) => {
        if (this.#open.delete(id)) observer.onError(error);
      },
    );
    return id;
  }

  cancel(id: string, reason: string): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.controller.abort(reason);
  }

  /** The pending request if there is exactly one. */
  get onlyCall(): RequestObserver | null {
    const [open] = this.#open.values();
    return this.#open.size === 1 && open !== undefined ? open.observer : null;
  }
}

/** Requests of one connection that were sent without the library and are not settled. */
export class PendingRequests {
  readonly #open = new Map<string, RequestObserver>();
  #count = 0;

  get size(): number {
    return this.#open.size;
  }

  /** Returns the id for the request. */
  add(observer: RequestObserver): string {
    this.#count += 1;
    const id = `spear-${this.#count}`;
    this.#open.set(id, observer);
    return id;
  }

  /** Removes the request and returns its observer. */
  take(id: string): RequestObserver | undefined {
    const observer = this.#open.get(id);
    if (observer !== undefined) this.#open.delete(id);
    return observer;
  }

  get(id: string): RequestObserver | null {
    return this.#open.get(id) ?? null;
  }

  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** The pending request if there is exactly one. */
  get only(): RequestObserver | null {
    const [observer] = this.#open.values();
    return this.#open.size === 1 ? (observer ?? null) : null;
  }

  /** Settles the request that the message answers, or passes its progress on. False: the message is about none of these. */
  settle(message: unknown): boolean {
    if (!isJsonObject(message)) return false;
    if (message.method === 'notifications/progress') return this.#progress(message.params);
    const { id, result, error } = message;
    if (typeof id !== 'string' || !this.#open.has(id) || !isResponse(message)) return false;
    const observer = this.take(id) as RequestObserver;
    if (error === undefined) observer.onResult(result as JsonObject);
    else observer.onError(new RpcError(error as { code: number; message: string; data?: unknown }));
    return true;
  }

  fail(id: string, error: unknown): void {
    this.take(id)?.onError(error);
  }

  failAll(error: Error): void {
    for (const id of [...this.#open.keys()]) this.fail(id, error);
  }

  #progress(params: JsonValue | undefined): boolean {
    const token = isJsonObject(params) ? params.progressToken : undefined;
    const observer = typeof token === 'string' ? this.#open.get(token) : undefined;
    if (observer?.wantsProgress !== true) return false;
    const progress = readProgress(params);
    if (progress !== null) observer.onProgress(progress);
    return true;
  }
}

/** As strict as the library: version, id, and either a result or an error, nothing else. */
function isResponse(message: JsonObject): boolean {
  const { jsonrpc, result, error } = message;
  if (jsonrpc !== '2.0' || Object.keys(message).length !== 3) return false;
  if (error === undefined) return isJsonObject(result) && (result._meta === undefined || isJsonObject(result._meta));
  return isJsonObject(error) && Number.isSafeInteger(error.code) && typeof error.message === 'string';
}

/** The text of any request but a tool call. `sessionMeta`: `_meta` of every request of a server without sessions. */
export function requestText(id: string, method: string, params: JsonObject, sessionMeta: JsonObject | null): string {
  const about = sessionMeta === null ? {} : { _meta: sessionMeta };
  return JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, ...about } });
}

/** The text of a tool call, on one line: JSON contains no line feed outside of strings, and escapes it inside. */
export function callText(
  id: string,
  { tool, args, continuation, meta }: ToolRequest,
  sessionMeta: JsonObject | null,
  wantsProgress: boolean,
): string {
  const token = wantsProgress ? { progressToken: id } : undefined;
  const about =
    sessionMeta === null && token === undefined ? meta : { ...sessionMeta, ...token, ...(meta as JsonObject) };
  const params = { name: tool, arguments: args, ...continuation, ...(about === undefined ? {} : { _meta: about }) };
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params });
}
