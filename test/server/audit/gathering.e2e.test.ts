import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { argumentsFor, keepArguments, textKept } from '../../../src/server/audit/arguments.ts';
import { type CallFinished, type CallStarted, noAudit } from '../../../src/server/audit/event.ts';
import { foldLimits } from '../../../src/server/audit/fold.ts';
import { KeptEvents, MAX_KEPT_CHARS } from '../../../src/server/audit/kept-events.ts';
import { type AuditLogOptions, GATHER_MS, MAX_GATHERED_EVENTS, openAuditLog } from '../../../src/server/audit/log.ts';
import { knownSecrets } from '../../../src/server/secrets/redactor.ts';
import { eventually } from '../../agent/mcp/client/pool-samples.ts';
import { eventsOf, linesOf, newTrail, samples, verified } from './audit-samples.ts';

const [, , session, , started, finished] = samples;
const ofRun = (path: string) => linesOf(path).filter(({ instance }) => instance === 'run-1');

function open(options: Partial<AuditLogOptions> = {}) {
  const posted = vi.spyOn(Worker.prototype, 'postMessage');
  onTestFinished(() => posted.mockRestore());
  const path = newTrail();
  const log = openAuditLog({ path, ...options });
  onTestFinished(() => log.close());
  const trail = log.forTask('a task');
  const start = (text: string, about: Partial<CallStarted> = {}) =>
    trail.write('run-1', { ...started, ...about, args: argumentsFor(trail, text) });
  /** What the thread was sent, the first word of the chain left out. */
  const batches = () => posted.mock.calls.slice(1).map(([batch]) => batch as { events: string[] });
  return { path, log, trail, start, batches };
}

describe('arguments that are kept', () => {
  it('are an empty object to everybody but the trail', () => {
    const args = keepArguments('{"note":"of nobody else"}');
    expect([JSON.stringify(args), Object.keys(args as object), textKept(args)]).toEqual([
      '{}',
      [],
      '{"note":"of nobody else"}',
    ]);
    expect([textKept({}), textKept(null), textKept('sha256:…')]).toEqual([null, null, null]);
  });

  it.each([
    ['redacted', { note: 'a', token: '[redacted]' }],
    ['sha256', expect.stringMatching(/^sha256:[0-9a-f]{64}$/)],
    ['shape', { note: 'string(1)', token: 'string(3)' }],
    ['none', null],
  ] as const)('are shown as %s when their line is made [audit.args]', async (args, expected) => {
    const { path, log, start } = open({ args });
    start('{"note":"a","token":"xyz"}');
    start('no JSON');
    await log.close();
    expect(ofRun(path).map((line) => line.args)).toEqual([expected, null]);
  });

  it('are shown at once to a trail that keeps none, and not even parsed for one that has none', () => {
    const plain = { write: () => {} };
    expect(argumentsFor(plain, '{"note":"a","token":"xyz"}')).toEqual({ note: 'a', token: '[redacted]' });
    const parse = vi.spyOn(JSON, 'parse');
    onTestFinished(() => parse.mockRestore());
    expect([argumentsFor(noAudit, '{}'), parse.mock.calls.length]).toEqual([null, 0]);
  });
});

describe('an event whose line is not made yet', () => {
  it('costs its call no JSON and no message [audit.calls]', async () => {
    const { log, trail, start, batches } = open();
    const made = [vi.spyOn(JSON, 'parse'), vi.spyOn(JSON, 'stringify')];
    start('{"note":"a"}');
    trail.write('run-1', finished);
    const calls = made.map((spy) => spy.mock.calls.length);
    for (const spy of made) spy.mockRestore();
    expect([calls, batches()]).toEqual([[0, 0], []]);
    await log.close();
    expect(batches().map(({ events }) => events.length)).toEqual([2]);
  });

  it('has the time at which it happened', async () => {
    const { path, trail } = open();
    trail.write('run-1', finished);
    const after = Date.now();
    await eventually(() => expect(ofRun(path)).toHaveLength(1));
    expect(Date.parse(String(ofRun(path)[0]?.ts))).toBeLessThanOrEqual(after);
    expect(Date.now() - after).toBeGreaterThanOrEqual(GATHER_MS - 1);
  });

  it('keeps its place among those that are written at once', async () => {
    const { path, log, trail, start } = open();
    start('{}', { request_id: '1' });
    trail.write('run-1', session);
    trail.write('run-1', { ...finished, request_id: '2' });
    start(JSON.stringify({ note: 'x'.repeat(MAX_KEPT_CHARS) }), { request_id: '3' });
    trail.write('run-1', { ...finished, request_id: '4' });
    await log.close();
    expect(ofRun(path).map(({ request_id, event }) => request_id ?? event)).toEqual([
      '1',
      'session.created',
      '2',
      '3',
      '4',
    ]);
    expect(verified(path).problem).toBeNull();
  });

  it('does not change with the object that told of it', async () => {
    const { path, log, trail } = open();
    const args = { note: 'as it was' };
    const told: { -readonly [Key in keyof CallStarted]: CallStarted[Key] } = { ...started, args };
    const ended: { -readonly [Key in keyof CallFinished]: CallFinished[Key] } = { ...finished };
    trail.write('run-1', told);
    trail.write('run-1', ended);
    args.note = 'changed';
    told.tool_name = 'changed';
    ended.status = 'failed';
    await log.close();
    expect(ofRun(path)).toMatchObject([{ tool_name: 'read', args: { note: 'as it was' } }, { status: 'ok' }]);
  });

  it('is counted instead of written as it would be at once [audit.folded]', async () => {
    const { path, log, trail } = open();
    const refused = { ...finished, status: 'denied', reason: 'denied_by_task' } as const;
    for (let number = 0; number < 50; number++) {
      trail.writeRefused?.('run-1', { ...started, args: argumentsFor(trail, '{"note":"a"}') }, refused);
    }
    await log.close();
    const lines = ofRun(path);
    expect(lines.slice(0, 2)).toMatchObject([{ args: { note: 'a' } }, { status: 'denied' }]);
    expect(lines).toHaveLength(2 * foldLimits.fullOfKind + 1);
    expect(lines.at(-1)).toMatchObject({ event: 'events.folded', count: 50 - foldLimits.fullOfKind });
  });
});

describe('a secret in an event whose line is not made yet', () => {
  it('that becomes known in between is taken out [audit.secrets]', async () => {
    const { path, log, start, batches } = open();
    const secret = 'plain words that turn out to be one';
    start(JSON.stringify({ note: secret }), { tool_name: secret });
    knownSecrets.add(secret);
    await log.close();
    expect(ofRun(path)).toMatchObject([{ tool_name: '[redacted]', args: { note: '[redacted]' } }]);
    expect(JSON.stringify(batches())).not.toContain(secret);
  });

  it('that is forgotten in between is taken out all the same [audit.secrets]', async () => {
    const { path, log, start, batches } = open();
    const secret = 'plain words of a record that goes';
    knownSecrets.addOfRecord(secret);
    start(JSON.stringify({ note: secret }), { tool_name: secret });
    for (let number = 0; number < 1_000; number++) knownSecrets.addOfRecord(`another-secret-${number}`);
    expect(knownSecrets.redact(secret)).toBe(secret);
    await log.close();
    expect(readFileSync(path, 'utf8')).not.toContain(secret);
    expect(JSON.stringify(batches())).not.toContain(secret);
    expect(ofRun(path)).toMatchObject([{ tool_name: '[redacted]', args: { note: '[redacted]' } }]);
  });

  it('is in none of the texts that go to the thread, one among many lines [audit.secrets]', async () => {
    const { path, log, start, batches } = open();
    const secret = 'words that only one line has';
    knownSecrets.add(secret);
    for (let number = 0; number < 100; number++)
      start(JSON.stringify({ note: number === 50 ? secret : 'other words' }));
    await log.close();
    expect(JSON.stringify(batches())).not.toContain(secret);
    const notes = ofRun(path).map(({ args }) => (args as { note: string }).note);
    expect(notes).toEqual(Array.from({ length: 100 }, (_, at) => (at === 50 ? '[redacted]' : 'other words')));
  });
});

describe('what is kept', () => {
  const happened = { task: null, instance: 'run-1', event: finished, refused: null, atMs: 0 } as const;

  it('is bounded in its characters, all together and each [audit.backpressure]', () => {
    const kept = new KeptEvents();
    expect(kept.add(happened, 100)).toBe(false);
    expect(kept.add({ ...happened, event: { ...finished, tool_name: 'x'.repeat(MAX_KEPT_CHARS) } }, 1e6)).toBe(false);
    const args = keepArguments(JSON.stringify('x'.repeat(MAX_KEPT_CHARS)));
    expect(kept.add({ ...happened, event: { ...started, args } }, 1e6)).toBe(false);
    expect([kept.count, kept.chars]).toEqual([0, 0]);
    let room = 10_000;
    while (kept.add(happened, 10_000)) room -= 512;
    expect([kept.count > 10, kept.chars <= 10_000, room > 0]).toEqual([true, true, true]);
    expect([kept.takeAll().length > 10, kept.count, kept.chars]).toEqual([true, 0, 0]);
  });

  it('holds nothing that somebody else could change', () => {
    const kept = new KeptEvents();
    const servers = ['github'];
    const args = { note: 'a', deep: { text: 'b' } };
    expect(kept.add({ ...happened, event: { ...session, servers } }, 1e6)).toBe(true);
    expect(kept.add({ ...happened, event: { ...started, args } }, 1e6)).toBe(true);
    servers.push('later');
    args.note = 'later';
    args.deep.text = 'later';
    const [one, other] = kept.takeAll();
    expect(one?.event).toMatchObject({ servers: ['github'] });
    expect(other?.event).toMatchObject({ args: { note: 'a', deep: { text: 'b' } } });
  });

  it('is no event that is nested deeper than any is, or that has too many items', () => {
    const kept = new KeptEvents();
    const args = { one: { two: { three: {} } } };
    expect(kept.add({ ...happened, event: { ...started, args } }, 1e6)).toBe(false);
    expect(kept.add({ ...happened, event: { ...session, servers: Array(2_000).fill('') } }, 1e6)).toBe(false);
  });

  it('is handed over without a turn of the event loop when there is much of it [audit.killed]', async () => {
    const { log, trail, batches } = open();
    for (let number = 1; number < MAX_GATHERED_EVENTS; number++) trail.write('run-1', finished);
    expect(batches()).toEqual([]);
    trail.write('run-1', finished);
    expect(batches().map(({ events }) => events.length)).toEqual([MAX_GATHERED_EVENTS]);
    await log.close();
  });

  it('is written in the order of a chain that starts and ends', async () => {
    const { path, log, trail } = open();
    trail.write('run-1', finished);
    await log.close();
    expect(eventsOf(path)).toEqual(['chain.started', 'tool_call.finished', 'chain.ended']);
  });
});
