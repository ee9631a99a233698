import type { JsonValue } from '../../../base/json.ts';
import { listPages, noPages, type Pages } from './list-pages.ts';
import type { PoolLimits } from './pool-options.ts';
import type { ServerSession } from './session.ts';

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
