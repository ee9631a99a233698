import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { openAuditLog } from '../../../src/server/audit/log.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { eventually, stdioRecord, tempDir } from './client/pool-samples.ts';
import { openHost } from './mcp-host.ts';

const CALLS = 10_000;
const AT_ONCE = 40;
/** Far above what it takes: other tests may keep the machine busy. */
const PATIENCE_MS = 55_000;

const answers = (env: Record<string, string> = {}) =>
  stdioRecord('answers', 'answers.mjs', { env, budgets: { tool_timeout_ms: 60_000, max_concurrency: 32 } });
const aboutCall = (tool: string, callId: string) =>
  ({ serverId: 'answers', tool, arguments: '{}', callId, session: 'mcp-1' }) as const;
const asked = (guest: GuestMcp, tool: string, callId: string) =>
  new Promise<{ text: string | undefined; code: string | undefined }>((resolve) => {
    guest.start(aboutCall(tool, callId), (json) => {
      const { content, error } = JSON.parse(json) as { content?: { text: string }[]; error?: { code: string } };
      resolve({ text: content?.[0]?.text, code: error?.code });
    });
  });
const linesOf = (path: string) => readFileSync(path, 'utf8').trimEnd().split('\n');

it(
  `${CALLS} calls beside the library reach the server once each, and the trail has each once in a valid chain`,
  async () => {
    const host = await openHost([answers()]);
    const path = join(tempDir(), 'audit.jsonl');
    const log = openAuditLog({ path });
    const { pool, registry, events } = host;
    const task = taskWith({ defaultServerIds: ['answers'] });
    const guest = new GuestMcp({ pool, registry, events, audit: log.forTask('many') }, 'run-1', task);
    const ids: string[] = [];
    for (let first = 0; first < CALLS; first += AT_ONCE) {
      const wave = Array.from({ length: AT_ONCE }, (_, i) => asked(guest, 'id', `call-${first + i}`));
      for (const { text } of await Promise.all(wave)) ids.push(text ?? '');
    }
    guest.close();
    await log.close();
    expect(new Set(ids).size).toBe(CALLS);
    expect(ids.filter((id) => !/^spear-\d+$/.test(id))).toEqual([]); // the library numbers its own
    const { problem, lost, chains } = verifyTrail([path]);
    expect([problem, lost, chains.length, chains[0]?.ended]).toEqual([null, 0, 1, true]);
    const told = linesOf(path).map((line) => JSON.parse(line) as JsonObject);
    const requests = (event: string) => told.flatMap((line) => (line.event === event ? [line.request_id] : [])).sort();
    const all = Array.from({ length: CALLS }, (_, i) => `call-${i}`).sort();
    expect(requests('tool_call.started')).toEqual(all);
    expect(requests('tool_call.finished')).toEqual(all);
  },
  PATIENCE_MS,
);

it.each(['removed', 'denied'])(
  'calls in flight of a tool that is %s end in the turn in which the node learns of it, at the server too [mcp.revoke]',
  async (how) => {
    const trail = join(tempDir(), 'trail');
    const record: McpServerRecord = answers({ TRAIL: trail });
    const host = await openHost([record]);
    const guest = host.guest();
    const held = Array.from({ length: 20 }, (_, i) => asked(guest, 'hold', `call-${i}`));
    await eventually(() => expect(linesOf(trail)).toHaveLength(20));
    let ended = 0;
    for (const each of held) void each.then(() => ended++);
    const endedAtChange = new Promise<number>((resolve) => {
      // Told after the guest: a microtask later all of its calls are over.
      host.registry.onChange(() => queueMicrotask(() => resolve(host.told('tool_call.finished').length)));
    });
    if (how === 'removed') await host.remove('answers');
    else await host.upsert({ ...record, allowed_tools: ['id'] });
    expect(await endedAtChange).toBe(20);
    expect((await Promise.all(held)).map(({ code }) => code)).toEqual(held.map(() => 'mcp_policy_denied'));
    expect(ended).toBe(20);
    const reason = how === 'removed' ? 'unknown_server' : 'denied_by_registry';
    expect(new Set(host.told('tool_call.finished').map((line) => line.reason))).toEqual(new Set([reason]));
    await eventually(() => expect(linesOf(trail).filter((line) => line.startsWith('cancelled'))).toHaveLength(20));
  },
);
