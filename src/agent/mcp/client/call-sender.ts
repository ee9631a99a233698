import type { Client, StandardSchemaV1 } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { QuestionTarget } from './elicitation/question.ts';
import type { CallHeaders } from './header-parameters.ts';
import { RpcError } from './transport/transport.ts';

/** How far a call is, as its server says. */
export interface CallProgress {
  readonly progress: number;
  /** Null: the server does not say. */
  readonly total: number | null;
}

/** Who waits for the answer to a call. One of the two is called, once, unless the call is cancelled before. */
export interface Asker extends QuestionTarget {
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

/** Our own deadlines decide; the library's timer must never come first. */
export const NO_LIBRARY_TIMEOUT_MS = 2 ** 31 - 1;

// The library would refuse a whole tools/list for one odd tool, so results are taken as they are and judged here.
export const anyObject: StandardSchemaV1<unknown, JsonObject> = {
  '~standard': {
    version: 1,
    vendor: 'spear',
    validate: (value) => (isJsonObject(value) ? { value } : { issues: [{ message: 'not an object' }] }),
  },
};

/** The library counts its own requests from 0, and has only lists and handshakes to count. */
const FIRST_ID = 1_000_000_000;
/** There are servers that keep an id in 32 bits. */
const LAST_ID = 2 ** 31 - 1;

/** The requests of one connection that are sent beside the library, by their ids. */
export class DirectRequests {
  readonly #open = new Map<number, Asker>();
  #next = FIRST_ID;

  get size(): number {
    return this.#open.size;
  }

  add(asker: Asker): number {
    while (this.#open.has(this.#next)) this.#step();
    const id = this.#next;
    this.#step();
    this.#open.set(id, asker);
    return id;
  }

  /** It is not waited for any more. */
  take(id: number): Asker | undefined {
    const asker = this.#open.get(id);
    if (asker !== undefined) this.#open.delete(id);
    return asker;
  }

  get(id: number): Asker | null {
    return this.#open.get(id) ?? null;
  }

  /** The one that is open, if it is one alone. */
  get only(): Asker | null {
    if (this.#open.size !== 1) return null;
    const [asker] = this.#open.values();
    return asker ?? null;
  }

  has(id: number): boolean {
    return this.#open.has(id);
  }

  /**
   * Settles the request that the message answers, or tells how far it is. False: it is about none of these, or is not one
   * that counts.
   */
  settle(message: unknown): boolean {
    if (!isJsonObject(message)) return false;
    if (message.method === 'notifications/progress') return this.#progress(message.params);
    const id = Number(message.id); // some servers give back a text
    if (!this.#open.has(id) || !isAnswer(message)) return false;
    const asker = this.take(id) as Asker;
    const { result, error } = message;
    if (error === undefined) asker.answered(result as JsonObject);
    else asker.failed(new RpcError(error as { code: number; message: string; data?: unknown }));
    return true;
  }

  fail(id: number, error: unknown): void {
    this.take(id)?.failed(error);
  }

  failAll(error: Error): void {
    for (const id of [...this.#open.keys()]) this.fail(id, error);
  }

  #progress(params: JsonValue | undefined): boolean {
    const asker = isJsonObject(params) ? this.#open.get(Number(params.progressToken)) : undefined;
    if (asker?.wantsProgress !== true) return false;
    const progress = readProgress(params);
    if (progress !== null) asker.progressed(progress);
    return true;
  }

  #step(): void {
    this.#next = this.#next === LAST_ID ? FIRST_ID : this.#next + 1;
  }
}

/** As strict as the library: version, id, and either a result or an error, nothing else. */
function isAnswer(message: JsonObject): boolean {
  const { jsonrpc, id, result, error } = message;
  if (jsonrpc !== '2.0' || (typeof id !== 'number' && typeof id !== 'string')) return false;
  if (Object.keys(message).length !== 3) return false;
  if (error === undefined) return isJsonObject(result) && (result._meta === undefined || isJsonObject(result._meta));
  return isJsonObject(error) && Number.isSafeInteger(error.code) && typeof error.message === 'string';
}

/** What is beside the arguments of a request: `about` as it is for most, which ask for no progress and go on with nothing. */
export function besideArguments(
  id: number,
  { wantsProgress }: Asker,
  about: { readonly _meta: JsonObject } | null,
  more: JsonObject | null,
): JsonObject | null {
  if (!wantsProgress && more === null) return about;
  return { ...about, ...more, ...(wantsProgress ? { _meta: { ...about?._meta, progressToken: id } } : {}) };
}

/** The text of any other request. */
export function requestText(id: number, method: string, params: JsonObject): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

/**
 * The text of a call, with `more` beside its arguments and `origin` in its `_meta`. One line: JSON has no line feed of
 * its own.
 */
export function callText(
  id: number,
  tool: string,
  args: JsonObject,
  more: JsonObject | null,
  origin: string | undefined,
): string {
  const about = more === null ? originText(origin) : aboutText(more, origin);
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":${JSON.stringify(tool)},"arguments":${JSON.stringify(args)}${about}}}`;
}

const originText = (origin: string | undefined): string => (origin === undefined ? '' : `,"_meta":{${origin}}`);

function aboutText(more: JsonObject, origin: string | undefined): string {
  if (origin === undefined) return `,${JSON.stringify(more).slice(1, -1)}`;
  const { _meta: meta, ...others } = more;
  const rest = JSON.stringify(others).slice(1, -1);
  const known = isJsonObject(meta) ? JSON.stringify(meta).slice(1, -1) : '';
  return `${rest === '' ? '' : `,${rest}`},"_meta":{${known === '' ? '' : `${known},`}${origin}}`;
}
