import { setTimeout } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { backoffMs } from '../../base/backoff.ts';
import { parseJson } from '../../base/json.ts';
import { RequestError } from '../api-client.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { APPROVALS_PATH, type SpearCommand, type SpearContext } from '../spear/command.ts';
import { printable } from '../table.ts';
import { fetchApprovals, outcomeText, type ShownApproval } from './approvals.ts';

const backoff = { firstMs: 200, maxMs: 5_000 };

/** Prints requests and decisions as they happen. Reconnects after a lost connection and prints what it missed. */
export const watchApprovals: SpearCommand = async (context) => {
  const interrupt = new AbortController();
  const stop = () => interrupt.abort();
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  try {
    await follow(context, interrupt.signal);
  } finally {
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  }
  return spearExitCodes.ok;
};

async function follow(context: SpearContext, signal: AbortSignal): Promise<void> {
  const { say } = context;
  const printed = new Map<string, number>();
  let failures = 0;
  let isFirst = true;
  while (!signal.aborted) {
    try {
      await listen(context, signal, async () => {
        if (failures > 0) say('reconnected to the registry');
        failures = 0;
        await printNew(context, printed, isFirst);
        isFirst = false;
      });
    } catch (error) {
      if (!(error instanceof RequestError) || signal.aborted) break;
      // A refused request would be refused again.
      if (isFirst || error.exitCode !== spearExitCodes.unreachable) throw error;
    }
    if (signal.aborted) break;
    failures += 1;
    if (failures === 1) say('connection to the registry lost; reconnecting');
    await setTimeout(backoffMs(backoff, failures, Math), undefined, { signal }).catch(() => {}); // aborted
  }
}

/** Calls back at the start and at every change, until the connection ends. */
async function listen({ client }: SpearContext, signal: AbortSignal, changed: () => Promise<void>): Promise<void> {
  const response = await client.open('GET', `${APPROVALS_PATH}/events`, {
    headers: { accept: 'text/event-stream' },
    signal,
  });
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  const text = new TextDecoder();
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      parser.feed(text.decode(chunk, { stream: true }));
      const isNew = events.splice(0).some(({ data }) => parseJson(data) !== undefined);
      if (isNew) await changed();
    }
  } catch (error) {
    if (error instanceof RequestError) throw error;
  }
}

/** Prints requests that changed since the last call; the first call prints only pending ones. */
async function printNew(context: SpearContext, printed: Map<string, number>, isFirst: boolean): Promise<void> {
  const { approvals } = await fetchApprovals(context, '');
  for (const approval of [...approvals].sort((a, b) => a.mod_revision - b.mod_revision)) {
    const { approval_id: id, mod_revision: revision, status } = approval;
    if ((printed.get(id) ?? 0) >= revision) continue;
    printed.set(id, revision);
    if (!isFirst || status === 'waiting') context.print(line(approval, context.flags.json));
  }
}

function line(approval: ShownApproval, json: boolean): string {
  if (json) return `${JSON.stringify(approval)}\n`;
  const { approval_id: id, task, server_id: server, tool_name: tool, status, needed, votes } = approval;
  const what = `${task === null ? '' : `${task}: `}${server} ${tool}`;
  const more = status === 'waiting' && needed > 1 ? ` (${votes.length} of ${needed})` : '';
  return `${printable(`${new Date(approval.updated_at_ms).toISOString()} ${id} ${what} ${outcomeText(approval)}${more}`)}\n`;
}
