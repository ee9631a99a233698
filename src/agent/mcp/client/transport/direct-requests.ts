import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';
import { type Asker, readProgress } from '../call-sender.ts';
import { RpcError } from './transport-failure.ts';

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
