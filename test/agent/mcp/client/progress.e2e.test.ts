import { expect, it } from 'vitest';
import type { CallProgress } from '../../../../src/agent/mcp/client/call-sender.ts';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import { call, fixture, httpRecord, openPool, startHttp, stdioRecord, textOf } from './pool-samples.ts';

/** Longer than a busy machine pauses, and shorter than all steps together. */
const usual = { tool_timeout_ms: 2_000, connect_timeout_ms: 30_000 };
const steps = { steps: 5, everyMs: 600 };
const long = { ...usual, max_tool_timeout_ms: 60_000 };

async function overAllWires(budgets: Readonly<Record<string, number>>): Promise<McpServerRecord[]> {
  const { url } = await startHttp(fixture('both-eras.mjs'), ['http'], {});
  return (['legacy', '2026-07-28'] as const).flatMap((protocol) => [
    { ...stdioRecord(`stdio-${protocol}`, 'both-eras.mjs', { budgets }), protocol },
    { ...httpRecord(`http-${protocol}`, 'streamable_http', url('/mcp'), { budgets }), protocol },
  ]);
}

it('puts the end of a call off, in both eras, over stdio and HTTP [pool.progress]', async () => {
  const { pool } = openPool();
  const records = await overAllWires(long);
  const said = await Promise.all(
    records.map(async (record) => {
      const progress: CallProgress[] = [];
      const progressed = (told: CallProgress) => progress.push(told);
      return { text: await textOf(call(pool, record, 'work', steps, { progressed })), progress };
    }),
  );
  const progress = [1, 2, 3, 4, 5].map((step) => ({ progress: step, total: 5 }));
  expect(said).toEqual(records.map(() => ({ text: 'told', progress })));
});

it('puts the end of a call off over the older SSE [pool.progress]', async () => {
  const { pool } = openPool();
  const { url } = await startHttp(fixture('http.mjs'), [], {});
  const record = httpRecord('sse', 'http_sse_legacy', url('/sse'), { budgets: long });
  expect(await textOf(call(pool, record, 'work', steps))).toBe('told');
});

it('is not asked for where it would change nothing, nor where the caller has less time [pool.progress]', async () => {
  const { pool } = openPool();
  const quick = { steps: 0, everyMs: 0 };
  const plain = stdioRecord('plain', 'progressing.mjs', { budgets: usual });
  expect(await textOf(call(pool, plain, 'work', quick))).toBe('nobody wants to know');
  const extended = stdioRecord('extended', 'progressing.mjs', { budgets: long });
  expect(await textOf(call(pool, extended, 'work', quick))).toBe('told');
  expect(await textOf(call(pool, extended, 'work', quick, { timeoutMs: 1_500 }))).toBe('nobody wants to know');
});

it('helps no call whose server is silent, and none beyond the longest, however much it tells [pool.progress]', async () => {
  const { pool } = openPool();
  const budgets = { tool_timeout_ms: 300, max_tool_timeout_ms: 1_200, connect_timeout_ms: 30_000 };
  const record = stdioRecord('progressing', 'progressing.mjs', { budgets });
  const tiny = stdioRecord('tiny', 'tiny.mjs', { budgets: usual });
  await pool.listTools(record);
  await pool.listTools(tiny);
  const silent = await call(pool, record, 'work', { steps: 1, everyMs: 60_000, silent: true });
  expect(silent.error).toMatchObject({ code: 'mcp_timeout', message: expect.stringContaining('300 ms') });
  const flooded = call(pool, record, 'flood');
  expect(await textOf(call(pool, tiny, 'echo', { message: 'meanwhile' }))).toBe('meanwhile');
  const outcome = await flooded;
  expect(outcome.error).toMatchObject({ code: 'mcp_timeout', message: expect.stringContaining('1200 ms') });
  expect(outcome.durationMs).toBeGreaterThanOrEqual(1_190);
});
