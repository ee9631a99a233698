import { untilAborted } from '../../../base/abort.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import { redactStrings } from '../../../server/secrets/redactor.ts';
import { McpArgumentsError, McpBudgetError, McpError, McpTimeoutError, McpToolError } from './errors.ts';
import type { PoolLimits } from './pool-options.ts';
import { abortReason, type ServerSession } from './session.ts';
import { TimeBudget } from './time-budget.ts';
import type { CheckedTool, ToolDescriptor } from './tool-list.ts';

/** A list that is asked for by pages: the request, the field of the answer, and what its entries are. */
export interface PagedList {
  readonly method: 'tools/list' | 'resources/list' | 'resources/templates/list' | 'prompts/list';
  readonly field: 'tools' | 'resources' | 'resourceTemplates' | 'prompts';
  readonly entries: 'tools' | 'resources' | 'templates' | 'prompts';
}

export interface Pages {
  readonly entries: readonly JsonValue[];
  /** The entries as text, to see whether another listing says anything new. */
  readonly source: string;
  /** What is odd about the list as a whole; null: nothing. */
  readonly notice: string | null;
  readonly durationMs: number;
  /** How long the server says that the list holds; null: it says nothing. */
  readonly ttlMs: number | null;
}

export const noPages: Pages = Object.freeze({ entries: [], source: '[]', notice: null, durationMs: 0, ttlMs: null });

/**
 * Asks for all pages. More pages, entries or bytes than allowed fail the listing as a whole: half a list misleads. A cursor
 * that says nothing, or the same as before, comes from a server that does not know pages: what it listed is all.
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

/** The whole holds no longer than any of its parts. */
export function shorterTtl(ttlMs: number | null, ofPart: JsonValue | undefined): number | null {
  if (typeof ofPart !== 'number' || !(ofPart >= 0)) return ttlMs;
  return ttlMs === null ? ofPart : Math.min(ttlMs, ofPart);
}

/** A description goes to the model like a result does. Only a list that holds a secret is walked. */
function withoutSecrets(listed: JsonValue[], { redactContent }: ServerSession): JsonValue[] {
  const text = JSON.stringify(listed);
  return redactContent(text) === text ? listed : redactStrings(listed, redactContent);
}

export interface RawListing extends Omit<Pages, 'entries'> {
  readonly tools: readonly JsonValue[];
  /** What the server says about how to use it; null: nothing. */
  readonly instructions: string | null;
  /** Whether it came from a server that reads parameters from headers. */
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

/** What a server has besides tools. */
export type OfferKind = Exclude<CallKind, 'tool'>;

/** As the server listed them, without secrets; nobody has looked at what the entries say. */
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

/** A server that declares none is not asked, and one may have resources and know no templates. */
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

/** What an approval is bound to: a server says nothing of what it offers but the name, which is in the call. */
export function describeOffer(name: string): ToolDescriptor {
  const inputSchema = { type: 'object' };
  return Object.freeze({ name, title: null, description: '', inputSchema, outputSchema: null, annotations: null });
}

/** @throws McpError where the server has no such thing at all, or the arguments are none for it */
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

/** `more`: what goes on with one that the server wants again. `traceparent`: what it is a part of. */
export function offerRequest(
  kind: OfferKind,
  name: string,
  args: JsonObject,
  more: JsonObject | null,
  traceparent?: string | undefined,
): [method: string, params: JsonObject] {
  const meta = traceparent === undefined ? {} : { _meta: { traceparent } };
  if (kind === 'resource') return ['resources/read', { uri: name, ...more, ...meta }];
  return ['prompts/get', { name, arguments: args, ...more, ...meta }];
}

/** What a server listed, before anybody looked at it. */
interface Listing {
  /** How long the server says that the list holds; null: it says nothing. */
  readonly ttlMs: number | null;
}

export interface ListCacheDeps<Raw extends Listing, List> {
  readonly serverId: string;
  /** The request, for messages. */
  readonly what: 'tools/list' | 'resources/list' | 'prompts/list';
  readonly limits: PoolLimits;
  /** Hands `work` an open session; connecting has a deadline of its own. */
  withSession<T>(work: (session: ServerSession) => Promise<T>): Promise<T>;
  list(session: ServerSession, signal: AbortSignal): Promise<Raw>;
  /** Must give `before` back where the listing says the same. */
  compile(listing: Raw, before: List | null): Promise<List>;
  failed(error: McpError): void;
  readonly now: () => number;
}

/**
 * One list of one server: its tools, its resources or its prompts. What each guest may see of it is decided above, so the
 * list itself is shared by all. Concurrent readers share one listing, and the abort of one reader leaves it to the others.
 */
export class ListCache<Raw extends Listing, List> {
  readonly #deps: ListCacheDeps<Raw, List>;
  #current: List | null = null;
  #freshUntilMs = 0;
  #failure: { error: McpError; untilMs: number } | null = null;
  #listing: { readonly result: Promise<List>; asked: boolean } | null = null;
  /** Counts what made the list doubtful; a listing that began before the last of these is not kept. */
  #changes = 0;

  constructor(deps: ListCacheDeps<Raw, List>) {
    this.#deps = deps;
  }

  /** The last listing that worked; null before there was one. */
  get last(): List | null {
    return this.#current;
  }

  /** The list, where nobody has to ask for it; null: {@link get} does. */
  get fresh(): List | null {
    return this.#deps.now() < this.#freshUntilMs ? this.#current : null;
  }

  /** The next reader asks the server again. */
  invalidate(): void {
    this.#changes += 1;
    this.#freshUntilMs = 0;
    this.#failure = null;
    // One that still waits for its connection will ask late enough.
    if (this.#listing?.asked) this.#listing = null;
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

  #start(): { readonly result: Promise<List>; asked: boolean } {
    const asking = () => {
      listing.asked = true;
    };
    const result = this.#list(asking).finally(() => {
      if (this.#listing === listing) this.#listing = null;
    });
    const listing = { result, asked: false };
    this.#listing = listing;
    return listing;
  }

  async #list(asking: () => void): Promise<List> {
    const { serverId, limits, now } = this.#deps;
    try {
      return await this.#deps.withSession(async (session) => {
        asking();
        const changes = this.#changes;
        const { listTimeoutMs } = limits;
        const what = `${this.#deps.what} of server "${serverId}"`;
        const deadline = new TimeBudget(listTimeoutMs, null, () => new McpTimeoutError(serverId, listTimeoutMs, what));
        const raw = await deadline.spend((signal) => this.#deps.list(session, signal));
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

/** A server may say how long its list holds. Not at all would be a list for each call, and forever is no promise. */
function ttlOf({ ttlMs }: Listing, { toolsTtlMs, minToolsTtlMs, maxToolsTtlMs }: PoolLimits): number {
  return ttlMs === null ? toolsTtlMs : Math.min(Math.max(ttlMs, minToolsTtlMs), maxToolsTtlMs);
}
