import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@modelcontextprotocol/client';
import type { PoolLimits } from './pool-options.ts';
import type { ServerSession } from './session.ts';
import { ResumePace } from './transport/resume-pace.ts';

/** A stream that was open for so long was worth opening. */
const LISTENED_MS = 10_000;

/**
 * A server without sessions tells of changes only where somebody listens, so one stream is kept open for as long as the
 * session is used. A server that does not want to be listened to is left in peace: its list is asked for when it is old.
 */
export async function listenForChanges(
  session: ServerSession,
  client: Client,
  { listTimeoutMs }: PoolLimits,
  changed: () => void,
): Promise<void> {
  const { tools, resources, prompts } = client.getServerCapabilities() ?? {};
  const wanted = {
    ...(tools?.listChanged === true ? { toolsListChanged: true } : {}),
    ...(resources?.listChanged === true ? { resourcesListChanged: true } : {}),
    ...(prompts?.listChanged === true ? { promptsListChanged: true } : {}),
  };
  if (Object.keys(wanted).length === 0) return;
  const pace = new ResumePace();
  while (session.usable) {
    try {
      const subscription = await client.listen(wanted, { timeout: listTimeoutMs });
      const openSinceMs = performance.now();
      await subscription.closed;
      if (performance.now() - openSinceMs > LISTENED_MS) pace.reset();
    } catch {
      return;
    }
    const pauseMs = pace.nextMs(null);
    if (pauseMs === null || !session.usable) return;
    await delay(pauseMs, undefined, { ref: false });
    // What changed while nobody listened was told to nobody.
    changed();
  }
}
