import type { Client } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject } from '../../../base/json.ts';
import type { AskedCall } from './elicitation/question.ts';
import type { CallHeaders } from './header-parameters.ts';
import { anyObject, NO_LIBRARY_TIMEOUT_MS } from './library-request.ts';
import type { CallProgress } from './pool-call.ts';

/** Who waits for the answer to a call. One of the two is called, once, unless the call is cancelled before. */
export interface Asker extends AskedCall {
  answered(result: JsonObject): void;
  /** By whatever was thrown; the session makes an error of ours of it. */
  failed(error: unknown): void;
  /** Whether the server is asked to tell how far it is. */
  readonly wantsProgress: boolean;
  /** The server told; only where that is wanted. */
  progressed(progress: CallProgress): void;
}

/**
 * The way of `tools/call` over one connection. Transports of our own have it themselves, beside the library, whose way
 * takes longer than everything else that is done for a call; all that a server sends unasked is the library's, and so
 * are other requests where it takes their results as they are.
 */
export interface CallSender {
  /**
   * Sends it, once and at once; over HTTP with these headers, and with `more` beside the arguments where it goes on with
   * one that the server wants again; `origin` goes into its `_meta`. Gives the id to cancel it by.
   * @throws whatever keeps it from being sent
   */
  ask(
    tool: string,
    args: JsonObject,
    asker: Asker,
    headers: CallHeaders,
    more: JsonObject | null,
    origin?: string | undefined,
  ): number;
  /** Any other request, sent as above. */
  askFor(method: string, params: JsonObject, asker: Asker): number;
  /** The server is told; the asker is told nothing any more. */
  cancel(id: number, reason: string): void;
}

/** What a server says of how far it is; null: nothing that can be read. */
export function readProgress(told: unknown): CallProgress | null {
  if (!isJsonObject(told) || typeof told.progress !== 'number') return null;
  return { progress: told.progress, total: typeof told.total === 'number' ? told.total : null };
}

function tell(asker: Asker, told: unknown): void {
  const progress = readProgress(told);
  if (progress !== null) asker.progressed(progress);
}

/** The library's way: for all but calls of tools, and for these over a transport without a way of its own. */
export class LibraryCalls implements CallSender {
  readonly #client: Client;
  readonly #open = new Map<number, { readonly asker: Asker; readonly controller: AbortController }>();
  #next = 1;

  constructor(client: Client) {
    this.#client = client;
  }

  ask(
    tool: string,
    args: JsonObject,
    asker: Asker,
    _headers: CallHeaders,
    _more: JsonObject | null,
    origin: string | undefined,
  ): number {
    const meta = origin === undefined ? {} : { _meta: JSON.parse(`{${origin}}`) as JsonObject };
    return this.askFor('tools/call', { name: tool, arguments: args, ...meta }, asker);
  }

  askFor(method: string, params: JsonObject, asker: Asker): number {
    const id = this.#next++;
    const controller = new AbortController();
    this.#open.set(id, { asker, controller });
    const { signal } = controller;
    const options = {
      signal,
      timeout: NO_LIBRARY_TIMEOUT_MS,
      allowInputRequired: true,
      ...(asker.wantsProgress ? { onprogress: (told: unknown) => tell(asker, told) } : {}),
    };
    this.#client.request({ method, params }, anyObject, options).then(
      (result) => {
        if (this.#open.delete(id)) asker.answered(result);
      },
      (error) => {
        if (this.#open.delete(id)) asker.failed(error);
      },
    );
    return id;
  }

  cancel(id: number, reason: string): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.controller.abort(reason);
  }

  /** The call that is under way, if it is one alone. */
  get onlyCall(): Asker | null {
    if (this.#open.size !== 1) return null;
    const [open] = this.#open.values();
    return open?.asker ?? null;
  }
}
