import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { JournalHeader, TimedRecord } from '../../../src/runtime/durable/journal.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { timelineOf } from '../../../src/server/timeline/timeline.ts';
import type { TimelineEntry } from '../../../src/server/timeline/timeline-entry.ts';
import { timelinePicture } from '../../../src/server/timeline/timeline-picture.ts';
import { headerOf, newFile, recordTools, SECRET } from '../../runtime/durable/recorded-runs.ts';
import { runFixture } from '../../support/run-fixture.ts';

const tools = newFile();
let header: JournalHeader;
beforeAll(async () => {
  await recordTools(tools);
  header = headerOf(tools);
});

const shownOf = (file: string, full = false) => timelineOf(readJournal(file), { full });
const made = (records: readonly object[], tornBytes = 0) =>
  timelineOf({
    file: '',
    header,
    records: records as TimedRecord[],
    end: { bytes: 0, hash: '', unsealed: '' },
    cipher: null,
    tornBytes,
  });
const ofKind = <Kind extends TimelineEntry['kind']>(entries: readonly TimelineEntry[], kind: Kind) =>
  entries.filter((entry): entry is Extract<TimelineEntry, { kind: Kind }> => entry.kind === kind);

async function recorded(guest: string, options: Parameters<typeof runFixture>[1] = {}) {
  const file = newFile();
  await runFixture(guest, { ...options, journal: { file } });
  return shownOf(file);
}

describe('the timeline of a run', () => {
  it('has its turns, its tool calls and who decided about them, with times [journal.show]', () => {
    const { entries, totals, ended, module, attempts } = shownOf(tools);
    expect(ofKind(entries, 'model')).toMatchObject([
      { turn: 1, asked: { role: 'user', text: { text: 'What is there?' } }, tokens: { prompt: 120, completion: 30 } },
      { turn: 2, asked: { role: 'tool', text: null }, calls: [{ name: 'tiny_fail' }, { name: 'no_such_tool' }] },
      { turn: 3, text: { text: 'It said <b>hi</b>.' }, calls: [] },
    ]);
    const calls = ofKind(entries, 'tool').map(({ source, server, tool, status, code }) => [
      source,
      server,
      tool,
      status,
      code,
    ]);
    expect(calls).toHaveLength(4);
    expect(calls).toEqual(
      expect.arrayContaining([
        ['mcp', 'tiny', 'echo', 'ok', null],
        ['mcp', 'tiny', 'pid', 'denied', 'mcp_approval_denied'],
        ['mcp', 'tiny', 'fail', 'failed', 'mcp_tool_error'],
        ['host', null, 'no_such_tool', expect.any(String), expect.any(String)],
      ]),
    );
    expect(ofKind(entries, 'approval')).toMatchObject([
      { tool: 'echo', decision: 'allow_once', decided_by: 'alice', status: 'ok', send: 1 },
      { tool: 'pid', decision: 'deny', reason: 'not today', status: 'denied' },
    ]);
    expect(ended).toEqual({ reason: 'exit', exit_code: 0, message: null });
    expect(totals).toMatchObject({ model_turns: 3, tool_calls: 4, approvals: 2, unknown: 0, prompt_tokens: 120 });
    expect(module.sha256).toBe(header.wasm.sha256);
    for (const { start_ms, end_ms } of entries) {
      expect(end_ms).toBeGreaterThanOrEqual(start_ms);
      expect(end_ms).toBeLessThanOrEqual(attempts[0]?.end_ms ?? 0);
    }
  });

  it('has no credentials in it, cut or whole [journal.show.masked]', () => {
    for (const full of [false, true]) expect(JSON.stringify(shownOf(tools, full))).not.toContain(SECRET);
    const long = 'word '.repeat(1_000);
    const records = [
      { t: 'tool.started', ordinal: '7', attempt: 1, server: 's', tool: 't', args: JSON.stringify({ long }), ms: 1 },
      { t: 'tool.finished', ordinal: '7', code: null, result: JSON.stringify({ long }), ms: 2 },
    ];
    expect(ofKind(made(records).entries, 'tool')[0]?.result?.cut_from).toBe(long.length + 11);
    const timeline = timelineOf({ ...readJournal(tools), records: records as TimedRecord[] }, { full: true });
    expect(ofKind(timeline.entries, 'tool')[0]?.result).toEqual({ text: JSON.stringify({ long }), cut_from: null });
  });

  it('has callbacks with their names, arguments and results', async () => {
    const { entries } = await recorded('c/sum.wasm', { backend: 'scripts/sum.json' });
    expect(ofKind(entries, 'tool')).toMatchObject([
      { source: 'native', tool: 'sum', args: { text: '{"a":2,"b":40}' }, result: { text: '{"sum":42}' }, status: 'ok' },
    ]);
    expect(ofKind(entries, 'output').map(({ text }) => text.text)).toContain('2 + 40 = 42\n');
  });

  it('has streamed answers, input, waits and turns that are handed back', async () => {
    const streamed = await recorded('c/stream.wasm', { backend: 'scripts/stream.json' });
    expect(ofKind(streamed.entries, 'model')[0]?.first_ms).not.toBeNull();
    expect(ofKind(streamed.entries, 'output')[0]?.bytes).toBe(79);
    const { Readable } = await import('node:stream');
    const fed = await recorded('c/test/echo-stdin.wasm', { stdin: () => Readable.from([Buffer.from('one\ntwo\n')]) });
    expect(ofKind(fed.entries, 'input')).toMatchObject([{ bytes: 8, text: { text: 'one\ntwo\n' } }]);
    const slept = await recorded('c/test/sleep.wasm', { args: ['30'] });
    expect(ofKind(slept.entries, 'wait').length).toBeGreaterThan(0);
    const handed = await recorded('c/handback.wasm', { backend: 'scripts/handback.json' });
    expect(ofKind(handed.entries, 'send').map(({ send, status }) => [send, status])).toEqual(
      [1, 2, 3].map((n) => [n, 'ok']),
    );
  });
});

const started = (ordinal: string, ms: number, attempt = 1) => ({
  ...{ t: 'tool.started', ordinal, attempt, server: 'fs', tool: 'write', args: '{}', ms },
});

describe('a journal that breaks off', () => {
  it('shows calls without an end as unknown, and says that it has no end [journal.show]', () => {
    const timeline = made([started('7', 5), { t: 'model.asked', call: 9, n: 0, backend: 'b', model: null, ms: 6 }], 12);
    expect(timeline).toMatchObject({ ended: null, torn_bytes: 12, totals: { unknown: 1 } });
    expect(timeline.entries).toMatchObject([
      { kind: 'tool', status: 'unknown', end_ms: null },
      { kind: 'send', status: 'open' },
      { kind: 'model', status: 'open' },
    ]);
    expect(timelinePicture(timeline).end).toContain('the last 12 bytes are an incomplete write (crash)');
  });

  it('and was taken up again has both attempts, and leaves out the time between them', () => {
    const timeline = made([
      started('7', 5),
      { t: 'resumed', attempt: 2, spear: '0.2.0', v8: '', ms: 86_400_000 },
      { t: 'tool.finished', ordinal: '7', code: 'mcp_outcome_unknown', result: '{}', ms: 86_400_010 },
      started('8', 86_400_011, 2),
      { t: 'tool.finished', ordinal: '8', code: null, result: '{}', ms: 86_400_020 },
      { t: 'end', reason: 'exit', exit: 0, message: null, ms: 86_400_030 },
    ]);
    expect(timeline.attempts).toEqual([
      { attempt: 1, start_ms: 0, end_ms: 5 },
      { attempt: 2, start_ms: 86_400_000, end_ms: 86_400_030 },
    ]);
    expect(ofKind(timeline.entries, 'tool')).toMatchObject([
      { status: 'unknown', end_ms: null, attempt: 1 },
      { status: 'unknown', code: 'mcp_outcome_unknown', server: 'fs', tool: 'write' },
      { status: 'ok', attempt: 2 },
    ]);
    const widths = timelinePicture(timeline).rows.map(({ width }) => width);
    expect(Math.max(...widths)).toBeGreaterThan(100);
  });
});

describe('whatever stands in a journal', () => {
  it('can be shown', () => {
    const kinds = [
      'model.asked',
      'model.answered',
      'tool.started',
      'tool.finished',
      'approval',
      'output',
      'reply',
      'end',
    ];
    const record = fc.record({
      t: fc.constantFrom(...kinds, 'resumed', 'guest', 'other'),
      ms: fc.anything(),
      call: fc.oneof(fc.constant(1), fc.jsonValue()),
      n: fc.constantFrom(0, 1, 'x'),
      m: fc.oneof(
        fc.array(fc.jsonValue()),
        fc.tuple(fc.constantFrom('tool', 'response', 'done', 'stdin'), fc.jsonValue(), fc.jsonValue()),
      ),
      send: fc.record({
        messages: fc.array(fc.record({ role: fc.constant('tool'), tool_call_id: fc.constantFrom('a', 'b') })),
      }),
      body: fc.oneof(
        fc.jsonValue(),
        fc.constant({ choices: [{ message: { tool_calls: [{ id: 'a', function: {} }] } }] }),
      ),
      ordinal: fc.constantFrom('1', '1.1.1', '1.x.', '', 7),
      event: fc.oneof(fc.jsonValue(), fc.constant({ event: 'approval.asked', request_id: 'a', args: { a: 1 } })),
      error: fc.jsonValue(),
      last: fc.jsonValue(),
      e: fc.string(),
      b: fc.jsonValue(),
    });
    fc.assert(
      fc.property(fc.array(record, { maxLength: 12 }), (records) => {
        const timeline = made(records);
        expect(timelinePicture(timeline).rows).toHaveLength(timeline.entries.length);
        for (const { start_ms, end_ms } of timeline.entries)
          expect(end_ms ?? start_ms).toBeGreaterThanOrEqual(start_ms);
      }),
      { numRuns: 300 },
    );
  });
});
