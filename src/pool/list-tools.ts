import type { JsonValue } from '../base/json.ts';
import { redactStrings } from '../secrets/redactor.ts';
import { McpToolError } from './errors.ts';
import type { PoolLimits } from './pool-options.ts';
import type { ServerSession } from './session.ts';

export interface RawListing {
  readonly tools: readonly JsonValue[];
  readonly source: string;
  readonly durationMs: number;
}

const subject = { what: 'tools/list', toolName: '' } as const;

/** Asks for all pages. More pages, tools or bytes than allowed fail the listing as a whole: half a list misleads. */
export async function listTools(session: ServerSession, limits: PoolLimits, signal: AbortSignal): Promise<RawListing> {
  if (!session.offersTools) return { tools: [], source: '[]', durationMs: 0 };
  const startedAt = performance.now();
  const fail = (why: string) =>
    new McpToolError(session.serverId, '', `tools/list of server "${session.serverId}": ${why}`);
  const tools: JsonValue[] = [];
  const cursors = new Set<string>();
  let source = '';
  for (let cursor: string | null = null; ; ) {
    const page = await session.request('tools/list', cursor === null ? {} : { cursor }, signal, subject);
    if (!Array.isArray(page.tools)) throw fail('the answer holds no list of tools');
    const listed = withoutSecrets(page.tools, session);
    for (const tool of listed) tools.push(tool);
    source += JSON.stringify(listed);
    if (tools.length > limits.maxTools) throw fail(`more than ${limits.maxTools} tools (maxTools)`);
    if (source.length > limits.maxListBytes) throw fail(`more than ${limits.maxListBytes} bytes (maxListBytes)`);
    const next = page.nextCursor;
    if (typeof next !== 'string') return { tools, source, durationMs: performance.now() - startedAt };
    if (cursors.has(next)) throw fail('its pages go round in a circle');
    cursors.add(next);
    if (cursors.size >= limits.maxListPages) throw fail(`more than ${limits.maxListPages} pages (maxListPages)`);
    cursor = next;
  }
}

/** A description goes to the model like a result does. Only a list that holds a secret is walked. */
function withoutSecrets(listed: JsonValue[], { redactContent }: ServerSession): JsonValue[] {
  const text = JSON.stringify(listed);
  return redactContent(text) === text ? listed : redactStrings(listed, redactContent);
}
