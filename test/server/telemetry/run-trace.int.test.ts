import { describe, expect, it } from 'vitest';
import { type ApprovalDecider, runTask, scriptedBackend } from '../../../src/index.ts';
import { SpanQueue } from '../../../src/server/telemetry/export.ts';
import type { EndedSpan } from '../../../src/server/telemetry/span.ts';
import { answer, json, openHttpAnswers } from '../../agent/mcp/client/http-answers.ts';
import { call, httpRecord, openPool, textOf } from '../../agent/mcp/client/pool-samples.ts';
import { recordOf } from '../../agent/mcp/mcp-run.ts';
import { emptyConfig, fixture, folder } from '../../library/fixtures.ts';

const all = { followsParent: true, ratio: 1 };

/** The spans of an agent whose one tool call has to be approved. */
async function approvedRun(approve: ApprovalDecider): Promise<EndedSpan[]> {
  const queue = new SpanQueue(all, 100, () => {});
  const made = { id: 'call_1', name: 'tiny_echo', arguments: { message: 'hi' } };
  const directory = folder({ 'tiny.json': recordOf('tiny', 'tiny.mjs', { approval_policy: { default: 'always' } }) });
  await using backend = await scriptedBackend({
    turns: [
      { when: { role: 'user' }, reply: { tool_calls: [made] } },
      { when: { role: 'tool' }, reply: { content: 'done' } },
    ],
  });
  const result = await runTask({
    wasm: fixture('c/files.wasm'),
    task: { name: 'approved', config: { 'mcp.enabled': true, 'mcp.default_server_ids': ['tiny'] } },
    config: emptyConfig(),
    mcp: { directory },
    output: () => {},
    ...{ backend, approve },
    tracing: { tracer: queue, parent: null, agent: 'approved' },
  });
  expect(result).toMatchObject({ reason: 'exit', exitCode: 0 });
  return queue.take(100);
}

const named = (spans: readonly EndedSpan[], name: string) => spans.find((span) => span.name === name);

describe('the spans of a run', () => {
  it('show how long an approval took, and what a call waited for [telemetry.run]', async () => {
    const spans = await approvedRun(() => 'allow_once');
    const tool = named(spans, 'execute_tool echo');
    expect(tool).toMatchObject({ kind: 'client', errorType: null });
    const asked = named(spans, 'approval');
    expect(asked).toMatchObject({ errorType: null, attributes: { 'spear.approval.decision': 'allow_once' } });
    expect(asked?.parent).toEqual(tool?.context);
    expect(asked?.startMs).toBeGreaterThanOrEqual(tool?.startMs ?? Number.POSITIVE_INFINITY);
    expect(asked?.endMs).toBeLessThanOrEqual(tool?.endMs ?? 0);
    const turns = spans.filter(({ name }) => name === 'chat scripted');
    expect(turns).toHaveLength(2);
    const whole = named(spans, 'invoke_agent approved');
    for (const span of [tool, ...turns]) expect(span?.parent).toEqual(whole?.context);
  });

  it('show that a call was denied [telemetry.errors]', async () => {
    const spans = await approvedRun(() => 'deny');
    expect(named(spans, 'approval')).toMatchObject({ attributes: { 'spear.approval.decision': 'deny' } });
    expect(named(spans, 'execute_tool echo')).toMatchObject({ errorType: 'approval_denied' });
  });
});

describe('a call over HTTP', () => {
  it('has its trace in a header and in its _meta, beside other metadata [telemetry.propagation]', async () => {
    const server = await openHttpAnswers({
      onCall: ({ request, response, body, id }) => {
        const { _meta } = body.params as { _meta: object };
        json(response, answer(id, JSON.stringify({ header: request.headers.traceparent, _meta })));
      },
    });
    const { pool } = openPool();
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const meta = { 'spear/run': 'run-1', traceparent };
    const record = httpRecord('web', 'streamable_http', server.url);
    const said = JSON.parse(await textOf(call(pool, record, 'say', {}, { traceparent, meta })));
    expect(said.header).toBe(traceparent);
    expect(said._meta).toMatchObject({ 'spear/run': 'run-1', traceparent });
    const plain = JSON.parse(await textOf(call(pool, record, 'say')));
    expect(plain).not.toHaveProperty('header');
  });
});
