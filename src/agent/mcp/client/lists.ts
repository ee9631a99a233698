import { untilAborted } from '../../../base/abort.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import { redactStrings } from '../../../server/secrets/redactor.ts';
import { McpArgumentsError, McpBudgetError, McpError, McpTimeoutError, McpToolError } from './errors.ts';
import type { PoolLimits } from './pool-options.ts';
import { abortReason, type ServerSession } from './session.ts';
import type { CheckedTool, ToolDescriptor } from './tool-list.ts';

/** A paginated list: request, result field, and the noun for its entries. */
export interface PagedList {
  readonly method: 'tools/list' | 'resources/list' | 'resources/templates/list' | 'prompts/list';
  readonly field: 'tools' | 'resources' | 'resourceTemplates' | 'prompts';
  readonly entries: 'tools' | 'resources' | 'templates' | 'prompts';
}

export interface Pages {
  readonly entries: readonly JsonValue[];
  /** The entries as text, to detect changes between listings. */
  readonly source: string;
  /** Anomaly of the list as a whole; null: none. */
  readonly notice: string | null;
  readonly durationMs: number;
  /** Lifetime that the server declares; null: none. */
  readonly ttlMs: number | null;
}

export const noPages: Pages = Object.freeze({ entries: [], source: '[]', notice: null, durationMs: 0, ttlMs: null });

/**
 * Requests all pages. A list that exceeds a limit fails as a whole, because half a list misleads. An empty or repeated
 * cursor comes from a server without pagination: the pages so far are the whole list.
 */
export async function listPages(
  session: ServerSession,
  { method, field, entries: kind }: PagedList,
  limits: PoolLimits,
  signal: AbortSignal,
): Promise<Pages> {
  const startedAt = performance.now();
  const fail = (why: string) =>
    new McpToolError(session.serverId, '', `${method} of server "${session.serverId}": ${why}`);
  const entries: JsonValue[] = [];
  const cursors = new Set<string>();
  let source = '';
  let ttlMs: number | null = null;
  let before = '';
  const listing = (notice: string | null): Pages => {
    return { entries, source, notice, durationMs: performance.now() - startedAt, ttlMs };
  };
  for (let cursor: string | null = null; ; ) {
    const params = cursor === null ? {} : { cursor };
    const page = await session.request(method, params, signal, { what: method, toolName: '' });
    const listedHere = page[field];
    if (!Array.isArray(listedHere)) throw fail(`the response has no list of ${kind}`);
    ttlMs = shorterTtl(ttlMs, page.ttlMs);
    const listed = withoutSecrets(listedHere, session);
    const next = page.nextCursor;
    const isRepeated = typeof next === 'string' && cursors.has(next);
    const text = JSON.stringify(listed);
    if (isRepeated && text === before) return listing('the server repeats the same page; it was read once');
    before = text;
    for (const entry of listed) entries.push(entry);
    source += text;
    if (entries.length > limits.maxTools) throw fail(`more than ${limits.maxTools} ${kind} (maxTools)`);
    if (source.length > limits.maxListBytes) throw fail(`more than ${limits.maxListBytes} bytes (maxListBytes)`);
    if (next === '') return listing('the last page has an empty nextCursor; the list ends there');
    if (typeof next !== 'string') return listing(null);
    if (isRepeated) return listing('the page cursors form a cycle; each page was read once');
    cursors.add(next);
    if (cursors.size >= limits.maxListPages) throw fail(`more than ${limits.maxListPages} pages (maxListPages)`);
    cursor = next;
  }
}

/** The whole list lives no longer than any of its pages. */
export function shorterTtl(ttlMs: number | null, ofPart: JsonValue | undefined): number | null {
  if (typeof ofPart !== 'number' || !(ofPart >= 0)) return ttlMs;
  return ttlMs === null ? ofPart : Math.min(ttlMs, ofPart);
}

/** Redacts secrets, because descriptions reach the model. Only a list that contains a secret is walked. */
function withoutSecrets(listed: JsonValue[], { redactContent }: ServerSession): JsonValue[] {
  const text = JSON.stringify(listed);
  return redactContent(text) === text ? listed : redactStrings(listed, redactContent);
}

export interface RawListing extends Omit<Pages, 'entries'> {
  readonly tools: readonly JsonValue[];
  /** The server's instructions; null: none. */
  readonly instructions: string | null;
  /** Whether the server reads mirrored parameters from headers. */
  readonly mirrorsHeaders: boolean;
}

export const NO_TOOLS_CAPABILITY =
  'the server declares no tools (its capabilities have no "tools"), so tools/list was not sent';

const toolPages = { method: 'tools/list', field: 'tools', entries: 'tools' } as const;

export async function listTools(session: ServerSession, limits: PoolLimits, signal: AbortSignal): Promise<RawListing> {
  const { mirrorsHeaders, instructions } = session;
  const { entries: tools, ...about } = session.offers('tool')
    ? await listPages(session, toolPages, limits, signal)
    : { ...noPages, notice: NO_TOOLS_CAPABILITY };
  return { tools, ...about, mirrorsHeaders, instructions };
}

/** What a server offers besides tools. */
export type OfferKind = Exclude<CallKind, 'tool'>;

/** As the server listed them, without secrets. The entries are not validated. */
export interface ResourceList {
  readonly resources: readonly JsonObject[];
  readonly templates: readonly JsonObject[];
  readonly ttlMs: number | null;
}

export interface PromptList {
  readonly prompts: readonly JsonObject[];
  readonly ttlMs: number | null;
}

const resourcePages: PagedList = { method: 'resources/list', field: 'resources', entries: 'resources' };
const promptPages: PagedList = { method: 'prompts/list', field: 'prompts', entries: 'prompts' };
const templatePages: PagedList = {
  method: 'resources/templates/list',
  field: 'resourceTemplates',
  entries: 'templates',
};

const METHOD_NOT_FOUND = -32601;

/** Skips a server that declares no resources. A server may have resources without supporting templates. */
export async function listResources(
  session: ServerSession,
  limits: PoolLimits,
  signal: AbortSignal,
): Promise<ResourceList> {
  if (!session.offers('resource')) return { resources: [], templates: [], ttlMs: null };
  const listed = await listPages(session, resourcePages, limits, signal);
  const templates = await listPages(session, templatePages, limits, signal).catch((error) => {
    if (error instanceof McpToolError && error.rpcCode === METHOD_NOT_FOUND) return noPages;
    throw error;
  });
  const ttlMs = shorterTtl(listed.ttlMs, templates.ttlMs);
  return { resources: objectsIn(listed.entries), templates: objectsIn(templates.entries), ttlMs };
}

export async function listPrompts(
  session: ServerSession,
  limits: PoolLimits,
  signal: AbortSignal,
): Promise<PromptList> {
  if (!session.offers('prompt')) return { prompts: [], ttlMs: null };
  const { entries, ttlMs } = await listPages(session, promptPages, limits, signal);
  return { prompts: objectsIn(entries), ttlMs };
}

const objectsIn = (entries: readonly JsonValue[]): JsonObject[] => entries.filter(isJsonObject);

/** The definition that an approval is bound to: only the name, since reads and prompts have no schema. */
export function describeOffer(name: string): ToolDescriptor {
  const inputSchema = { type: 'object' };
  return Object.freeze({ name, title: null, description: '', inputSchema, outputSchema: null, annotations: null });
}

/** @throws McpError if the server lacks the capability or the arguments are invalid */
export function checkOffer(
  session: Pick<ServerSession, 'serverId' | 'offers'>,
  kind: OfferKind,
  name: string,
  args: JsonObject,
): Omit<CheckedTool, 'input'> {
  const { serverId } = session;
  if (!session.offers(kind)) {
    const message = `server "${serverId}" declares no ${kind}s (its capabilities have no "${kind}s")`;
    throw new McpToolError(serverId, name, `${kind} "${name}": ${message}`);
  }
  checkOfferArguments(serverId, name, args);
  return { tool: describeOffer(name), output: null, headers: [] };
}

/** @throws McpArgumentsError */
export function checkOfferArguments(serverId: string, name: string, args: JsonObject): void {
  const odd = Object.keys(args).find((key) => typeof args[key] !== 'string');
  if (odd === undefined) return;
  const message = `prompt "${name}": argument ${JSON.stringify(odd)} must be a string`;
  throw new McpArgumentsError(serverId, name, message);
}

/** `continuation`: input responses and server state of a continued request. */
export function offerRequest(
  kind: OfferKind,
  name: string,
  args: JsonObject,
  continuation: JsonObject | null,
  traceparent?: string | undefined,
): [method: string, params: JsonObject] {
  const meta = traceparent === undefined ? {} : { _meta: { traceparent } };
  if (kind === 'resource') return ['resources/read', { uri: name, ...continuation, ...meta }];
  return ['prompts/get', { name, arguments: args, ...continuation, ...meta }];
}

/** An unprocessed list. */
interface Listing {
  /** Lifetime that the server declares; null: none. */
  readonly ttlMs: number | null;
}

export interface ListCacheDeps<Raw extends Listing, List> {
  readonly serverId: string;
  /** The request, for error messages. */
  readonly what: 'tools/list' | 'resources/list' | 'prompts/list';
  readonly limits: PoolLimits;
  /** Runs `work` with a leased session; connecting has its own deadline. */
  withSession<T>(work: (session: ServerSession) => Promise<T>): Promise<T>;
  list(session: ServerSession, signal: AbortSignal): Promise<Raw>;
  /** Must return `before` if the listing is unchanged. */
  compile(listing: Raw, before: List | null): Promise<List>;
  failed(error: McpError): void;
  readonly now: () => number;
}

/**
 * Cached list of one server: tools, resources or prompts. All guests share it; policy filters it above. Concurrent readers
 * share one listing, and aborting one reader does not end the listing.
 */
export class ListCache<Raw extends Listing, List> {
  readonly #deps: ListCacheDeps<Raw, List>;
  #current: List | null = null;
  #freshUntilMs = 0;
  #failure: { error: McpError; untilMs: number } | null = null;
  #listing: { readonly result: Promise<List>; isRequested: boolean } | null = null;
  /** Counts invalidations: a listing that began before the last one is not cached. */
  #changes = 0;

  constructor(deps: ListCacheDeps<Raw, List>) {
    this.#deps = deps;
  }

  /** The last successful listing; null: none yet. */
  get last(): List | null {
    return this.#current;
  }

  /** The cached list if it is fresh; null: use {@link get}. */
  get fresh(): List | null {
    return this.#deps.now() < this.#freshUntilMs ? this.#current : null;
  }

  /** The next reader requests the list again. */
  invalidate(): void {
    this.#changes += 1;
    this.#freshUntilMs = 0;
    this.#failure = null;
    // A listing that still waits for its connection will be requested late enough.
    if (this.#listing?.isRequested) this.#listing = null;
  }

  async get(signal: AbortSignal | null): Promise<List> {
    const known = this.fresh;
    if (known !== null) return known;
    if (this.#failure !== null && this.#deps.now() < this.#failure.untilMs) throw this.#failure.error;
    const { result } = this.#listing ?? this.#start();
    return untilAborted(result, signal, () => {
      throw abortReason(this.#deps.serverId, signal as AbortSignal);
    });
  }

  #start(): { readonly result: Promise<List>; isRequested: boolean } {
    const onRequest = () => {
      listing.isRequested = true;
    };
    const result = this.#list(onRequest).finally(() => {
      if (this.#listing === listing) this.#listing = null;
    });
    const listing = { result, isRequested: false };
    this.#listing = listing;
    return listing;
  }

  async #list(onRequest: () => void): Promise<List> {
    const { serverId, limits, now } = this.#deps;
    try {
      return await this.#deps.withSession(async (session) => {
        onRequest();
        const changes = this.#changes;
        const { listTimeoutMs } = limits;
        const what = `${this.#deps.what} of server "${serverId}"`;
        const deadline = new AbortController();
        const timer = setTimeout(
          () => deadline.abort(new McpTimeoutError(serverId, listTimeoutMs, what)),
          listTimeoutMs,
        );
        const raw = await this.#deps.list(session, deadline.signal).finally(() => clearTimeout(timer));
        const compiled = await this.#deps.compile(raw, this.#current);
        if (changes === this.#changes) {
          this.#current = compiled;
          this.#freshUntilMs = now() + ttlOf(raw, limits);
          this.#failure = null;
        }
        return compiled;
      });
    } catch (error) {
      // A full host says nothing about this server.
      if (!(error instanceof McpError) || error instanceof McpBudgetError) throw error;
      this.#failure = { error, untilMs: now() + limits.failureTtlMs };
      this.#deps.failed(error);
      throw error;
    }
  }
}

/** The server's lifetime within bounds: 0 would request the list for every call. */
function ttlOf({ ttlMs }: Listing, { toolsTtlMs, minToolsTtlMs, maxToolsTtlMs }: PoolLimits): number {
  return ttlMs === null ? toolsTtlMs : Math.min(Math.max(ttlMs, minToolsTtlMs), maxToolsTtlMs);
}
