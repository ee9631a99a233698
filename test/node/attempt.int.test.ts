import type { Readable } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type GuestAttempt, type NodeContext, runAttempt, type StopReason } from '../../src/node/attempt.ts';
import type { EarlierAttempt } from '../../src/node/run-journals.ts';
import { runGuest } from '../../src/run/run-guest.ts';
import { JournalError } from '../../src/runtime/durable/journal-error.ts';
import type { RunResult } from '../../src/runtime/host/run-result.ts';
import type { ParkedFor, RunEnding } from '../../src/server/queue/run-queue.ts';
import { MAX_RESULT_BYTES } from '../../src/server/records/run.ts';
import { sampleStop } from './stop-samples.ts';

vi.mock('../../src/run/run-guest.ts', () => ({ runGuest: vi.fn() }));

type GuestOptions = Omit<Parameters<typeof runGuest>[0], 'output' | 'stdin'> & {
  readonly output: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void;
  readonly stdin: () => Readable;
};

afterEach(() => vi.mocked(runGuest).mockReset());

const cost = { model_calls: 7, tool_calls: 0, tokens: { total_tokens: 70 } };
const earlierAttempt: EarlierAttempt = { end: null, stdout: Buffer.from('one '), inputRead: 3, cost, resumed: 0 };

/** How a guest ends that runs as long as the test says. */
type FakeGuest = (options: GuestOptions) => Partial<RunResult>;

interface Given {
  readonly earlier?: EarlierAttempt | null;
  readonly number?: number;
  readonly run?: object;
  /** The stop that arrives before the guest ends. */
  readonly stop?: StopReason | null;
  /** Servers that the run lacked. */
  readonly degraded?: RunEnding['degraded'];
}

async function attempt(
  guest: FakeGuest,
  { earlier = null, number = 1, stop: reason = null, run = {}, degraded }: Given = {},
) {
  let seen: GuestOptions | undefined;
  vi.mocked(runGuest).mockImplementation(async (options) => {
    const given = options as GuestOptions;
    seen = given;
    const chat = { sends: 1, iterations: 2, toolCalls: 3, usage: { total_tokens: 11 } };
    const isolation = { kind: 'shared', why: null } as const;
    return { reason: 'exit', exitCode: 0, message: null, chat, isolation, ...guest(given) } as RunResult;
  });
  const stop = new AbortController();
  if (reason !== null) stop.abort(reason);
  const events: (readonly [string, unknown])[] = [];
  const node = {
    engine: {
      journals: {
        option: (_claim: unknown, mode: string) => ({ file: 'r1.jsonl', mode }),
        earlier: async () => earlier,
      },
    },
    budgets: { forRun: () => null },
    limits: { park_after_ms: 1_000 },
    ...{ approvals: null, streamModels: false, threads: 'threads', log: () => {} },
  } as unknown as NodeContext;
  const outcome = await runAttempt(node, {
    claim: { run: { id: 'r1', submitted_by: 'ann', ...run }, attempt: number },
    runtime: {
      task: { namespace: 'default', name: 'hello', args: ['x'], env: {}, isolation: 'shared' },
      noServers: null,
    },
    input: Buffer.from('input'),
    events: { emit: (event: string, data: unknown) => events.push([event, data]) },
    marks: { onWaiting: () => {}, degraded },
    ...{ earlier, tracing: null, signal: stop.signal },
  } as unknown as GuestAttempt);
  return { outcome, seen, events };
}

describe('the outcome of an attempt', () => {
  it.each([
    ['succeeded', 'exit', 0],
    ['failed', 'exit', 1],
    ['failed', 'trap', null],
    ['failed', 'deadline', null],
    ['failed', 'memory', null],
    ['failed', 'module', null],
    ['failed', 'diverged', null],
  ] as const)('is %s for a guest that ended by %s %s', async (status, reason, exitCode) => {
    const { outcome } = await attempt(() => ({ reason, exitCode, message: 'why' }));
    expect(outcome).toMatchObject({
      kind: 'ended',
      ending: { status, exit: { reason, code: exitCode, message: 'why' } },
    });
  });

  it.each([
    ['cancelled', { kind: 'ended', ending: { status: 'cancelled', exit: { reason: 'cancelled', code: null } } }],
    ['draining', { kind: 'again', counts: false, pause: false, why: 'draining' }],
    ['lost', { kind: 'again', counts: true, pause: false, why: 'lost' }],
  ] as const)('of a guest that was interrupted because it is %s', async (reason, expected) => {
    const { outcome } = await attempt(() => ({ reason: 'interrupted', exitCode: null }), { stop: reason });
    expect(outcome).toMatchObject(expected);
  });

  it.each(['interrupted', 'parked'] as const)(
    'of a guest that was %s by a stop: parked until it is lifted',
    async (reason) => {
      const until = { kind: 'stop', stop: 'aaaa0001', reason: 'incident 12' };
      const stop = { stop: sampleStop('all', '', 'stop') };
      const guest: FakeGuest = ({ waits }) => {
        expect(waits?.parkedBy?.(stop)).toEqual(until);
        expect(waits?.parkedBy?.('draining')).toBeNull();
        if (reason === 'parked') waits?.onPark(until as ParkedFor, ['a-1']);
        return { reason, exitCode: null };
      };
      const { outcome } = await attempt(guest, { stop });
      expect(outcome).toEqual({ kind: 'parked', until, requests: reason === 'parked' ? ['a-1'] : [] });
    },
  );

  it('of a guest that a stop cancelled: cancelled with the reason [stop.cancel]', async () => {
    const { outcome } = await attempt(() => ({ reason: 'interrupted', exitCode: null }), {
      stop: { stop: sampleStop('all', '', 'cancel') },
    });
    expect(outcome).toMatchObject({
      kind: 'ended',
      ending: { status: 'cancelled', exit: { reason: 'cancelled', message: 'stopped: incident 12' } },
    });
  });

  it('is the end of the guest where it ended by itself before it could be cancelled', async () => {
    const { outcome } = await attempt(() => ({ reason: 'exit', exitCode: 0 }), { stop: 'cancelled' });
    expect(outcome).toMatchObject({ kind: 'ended', ending: { status: 'succeeded' } });
  });

  it.each([
    ['a shared thread was lost', 'lost', 'its thread is gone', { counts: false, pause: false }],
    ['the host failed', 'internal', 'a bug', { counts: true, pause: true }],
    ['the journal could not be written', 'journal', 'ENOSPC', { counts: false, pause: true }],
  ] as const)('is a retry where %s', async (_, reason, message, expected) => {
    const { outcome } = await attempt(() => ({ reason, exitCode: null, message }));
    expect(outcome).toEqual({ kind: 'again', ...expected, why: message });
  });

  it.each(['internal', 'journal', 'lost'] as const)(
    'is a retry that does not count where the host had no descriptor and the guest ended as %s [node.pressure]',
    async (reason) => {
      const { outcome } = await attempt(() => ({ reason, exitCode: null, message: 'why', systemError: 'EMFILE' }));
      const why = 'the process has no free file descriptor (RLIMIT_NOFILE): why';
      expect(outcome).toEqual({ kind: 'again', counts: false, pause: true, why });
    },
  );

  it('names the journal that could not be written for EIO', async () => {
    const { outcome } = await attempt(() => ({ reason: 'journal', exitCode: null, systemError: 'EIO' }));
    expect(outcome).toMatchObject({ kind: 'again', counts: false, pause: true, failedFile: 'r1.jsonl' });
  });

  it('holds the namespace of a guest that never got a thread, and does not count [threads.first]', async () => {
    const message = 'no guest thread is free';
    const isolation = { kind: 'none', why: null } as const;
    const { outcome } = await attempt(() => ({ reason: 'lost', exitCode: null, message, isolation }));
    expect(outcome).toEqual({ kind: 'again', counts: false, pause: false, holds: 'namespace', why: message });
  });

  it('is a failure where the journal has reached limits.journal_bytes: a retry would reach it again', async () => {
    const message = 'the journal has more than limits.journal_bytes (1000)';
    const { outcome } = await attempt(() => ({ reason: 'journal', exitCode: null, message }));
    expect(outcome).toMatchObject({
      kind: 'ended',
      ending: { status: 'failed', exit: { reason: 'journal', message } },
    });
  });

  it.each([
    [
      'a journal that cannot be opened is retried after a pause, and does not count',
      new JournalError('r1', 'EIO'),
      false,
      true,
    ],
    ['another error counts, and is retried without a pause', new Error('EIO'), true, false],
  ] as const)('of %s', async (_, error, counts, pause) => {
    const { outcome } = await attempt(() => {
      throw error;
    });
    expect(outcome).toEqual({ kind: 'again', counts, pause, why: error.message });
  });

  it('is a failure where the guest writes more than a result may have', async () => {
    const { outcome } = await attempt(({ output, signal }) => {
      output('stdout', Buffer.alloc(MAX_RESULT_BYTES));
      expect(signal?.aborted).toBe(false);
      output('stdout', Buffer.alloc(1));
      expect(signal?.aborted).toBe(true);
      return { reason: 'interrupted', exitCode: null };
    });
    expect(outcome).toMatchObject({
      kind: 'ended',
      ending: {
        status: 'failed',
        exit: { reason: 'result', message: expect.stringContaining(String(MAX_RESULT_BYTES)) },
      },
    });
  });
});

describe('an attempt that parks', () => {
  const until = { kind: 'approval', request: 'a-1' } as const;
  const parks: FakeGuest = ({ waits }) => {
    waits?.onPark(until, ['a-1']);
    return { reason: 'parked', exitCode: null };
  };

  it('names what it waits for', async () => {
    expect((await attempt(parks)).outcome).toEqual({ kind: 'parked', until, requests: ['a-1'] });
  });

  it('stays parked while the node drains', async () => {
    expect((await attempt(parks, { stop: 'draining' })).outcome).toMatchObject({ kind: 'parked' });
  });

  it.each([
    ['cancelled', { kind: 'ended', ending: { status: 'cancelled' } }],
    ['lost', { kind: 'again', counts: true }],
  ] as const)('while it is being %s does not wait', async (reason, expected) => {
    expect((await attempt(parks, { stop: reason })).outcome).toMatchObject(expected);
  });
});

describe('what a guest is given, and gives', () => {
  it('is its input and a new journal; its output is the result, and its usage the cost', async () => {
    const { outcome, seen, events } = await attempt(({ output }) => {
      output('stdout', Buffer.from('hello'));
      output('stderr', Buffer.from('a log line'));
      return {};
    });
    expect(outcome).toMatchObject({
      ending: { result: Buffer.from('hello'), cost: { model_calls: 2, tool_calls: 3, tokens: { total_tokens: 11 } } },
    });
    expect(seen).toMatchObject({ journal: { mode: 'record' }, threads: 'threads', args: ['hello', 'x'] });
    expect(seen?.env).toMatchObject({ SPEAR_TASK: 'default/hello', SPEAR_RUN_ID: 'r1' });
    expect(events).toEqual([
      ['output', { text: 'hello' }],
      ['log', { text: 'a log line' }],
    ]);
  });

  it('is what earlier attempts left: the rest of the input, their output and their cost', async () => {
    const { outcome, seen } = await attempt(
      ({ output }) => {
        output('stdout', Buffer.from('two'));
        return {};
      },
      { earlier: earlierAttempt, number: 2 },
    );
    expect(outcome).toMatchObject({ ending: { result: Buffer.from('one two'), cost } });
    expect(seen?.journal).toMatchObject({ mode: 'resume' });
    const chunks = (await seen?.stdin().toArray()) ?? [];
    expect(Buffer.concat(chunks).toString()).toBe('ut');
  });
});

it.each([
  ['its submitter', {}, null, 'ann'],
  ['the submitter of the first run where it is a retry', { first_submitted_by: 'sam' }, null, 'sam'],
  ['its submitter also where it is resumed', {}, earlierAttempt, 'ann'],
] as const)('an attempt names %s to approvers [approval.self]', async (_, run, earlier, expected) => {
  const { seen } = await attempt(() => ({}), { run, earlier });
  expect(seen?.submittedBy).toBe(expected);
});
