import { describe, expect, it } from 'vitest';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { foldLimits } from '../../../src/server/audit/fold.ts';
import { REFUSED_ARGUMENT_CHARS } from '../../../src/server/audit/kept-events.ts';
import { openAuditLog } from '../../../src/server/audit/log.ts';
import { linesOf, newTrail, verified } from '../../server/audit/audit-samples.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { never, openHost } from './mcp-host.ts';

const FLOOD = 2_000;
const large = {
  message: 'hello',
  ...Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`k${at}`, 'x '.repeat(150)])),
};

/** A guest with a trail that keeps about 400 KB. */
async function openGuest() {
  const path = newTrail();
  const log = openAuditLog({ path, maxBytes: 131_072, keep: 2 });
  const host = await openHost([stdioRecord('tiny', 'tiny.mjs')]);
  const task = taskWith({ defaultServerIds: ['tiny'], toolDenylist: ['pid'] });
  const { pool, registry, events } = host;
  const guest = new GuestMcp({ pool, registry, events, audit: log.forTask('flood') }, 'run-1', task);
  const call = (tool: string, args: object, callId: string) => {
    const about = { serverId: 'tiny', tool, callId, session: 'mcp-3', arguments: JSON.stringify(args) };
    return guest.call(about, never);
  };
  return { path, log, call };
}

describe('a guest that makes calls which are refused, as many as it can', () => {
  it.each<[string, (number: number) => string, object, string]>([
    ['denied by policy', () => 'pid', large, 'denied_by_task'],
    ['of tools that nobody has', (number) => `tool-${number}`, large, 'mcp_invalid_arguments'],
    ['of arguments that are wrong', () => 'echo', { ...large, message: 7 }, 'mcp_invalid_arguments'],
  ])('%s cannot write its own deeds out of the trail [audit.folded]', async (_, tool, args, reason) => {
    const { path, log, call } = await openGuest();
    await call('echo', { message: 'the deed' }, 'deed');
    for (let number = 0; number < FLOOD; number++) await call(tool(number), args, `flood-${number}`);
    await log.close();

    const lines = linesOf(path);
    const deed = lines.filter(({ request_id }) => request_id === 'deed').map(({ event, status }) => [event, status]);
    expect(deed).toEqual([
      ['tool_call.started', undefined],
      ['tool_call.finished', 'ok'],
    ]);
    const refused = lines.filter(({ request_id, event }) => request_id !== 'deed' && event === 'tool_call.finished');
    const folded = lines.filter(({ event }) => event === 'events.folded');
    for (const line of folded) expect(line).toMatchObject({ of: 'tool_call.finished', reason, instance: 'run-1' });
    expect(refused.length + folded.reduce((sum, { count }) => sum + Number(count), 0)).toBe(FLOOD);
    expect(folded.length).toBeLessThanOrEqual((foldLimits.kinds + 1) * Math.ceil(FLOOD / foldLimits.full));
    for (const { event, args: shown } of lines) {
      if (event === 'tool_call.started')
        expect(JSON.stringify(shown).length).toBeLessThan(REFUSED_ARGUMENT_CHARS + 100);
    }
    const { problem, folded: counted, chains } = verified(path);
    expect([problem, counted, chains[0]?.from]).toEqual([null, FLOOD - refused.length, 0]);
  });

  it('has each call that was sent in full, however many there are [audit.folded]', async () => {
    const { path, log, call } = await openGuest();
    const sent = foldLimits.full + 20;
    for (let number = 0; number < sent; number++) await call('echo', { message: 'x' }, `sent-${number}`);
    await log.close();
    const finished = linesOf(path).filter(({ event }) => event === 'tool_call.finished');
    expect(finished.map(({ request_id }) => request_id)).toEqual(Array.from({ length: sent }, (_, at) => `sent-${at}`));
    expect(verified(path).folded).toBe(0);
  });
});
