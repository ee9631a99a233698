import type { JsonValue } from '../../../base/json.ts';
import { redactStrings } from '../../../server/secrets/redactor.ts';
import { McpToolError } from './errors.ts';
import type { PoolLimits } from './pool-options.ts';
import type { ServerSession } from './session.ts';

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
