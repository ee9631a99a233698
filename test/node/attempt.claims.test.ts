import { describe, expect, it } from 'vitest';
import { type NodeContext, RunAttempts } from '../../src/node/attempt.ts';
import type { EarlierAttempt } from '../../src/node/run-journals.ts';
import { JournalError } from '../../src/runtime/durable/journal-error.ts';
import { AllRunEvents, activationOf, type RunEvent } from '../../src/server/queue/run-events.ts';
import type { Claim } from '../../src/server/queue/run-queue.ts';
import type { TaskRevision } from '../../src/server/records/task.ts';
import { newRun } from '../server/queue/queue-contract.ts';
import { FakeRunQueue } from '../support/fake-run-queue.ts';

const task = { namespace: 'default', name: 'hello', revision: 1, wasm: 'a'.repeat(64) } as TaskRevision;
const cost = { model_calls: 2, tool_calls: 1, tokens: { total_tokens: 9 } };
const earlierAttempt: EarlierAttempt = { end: null, stdout: Buffer.from('so far'), inputRead: 0, cost, resumed: 0 };

interface Given {
  readonly earlier?: EarlierAttempt | Error | null;
  readonly revision?: TaskRevision | Error | null;
  /** Why the tasks of the registry are unknown. */
  readonly notLoaded?: string | null;
  /** Why runs of the revision must not start. */
  readonly notYet?: string | null;
  readonly isShared?: boolean;
}

/** Everything around an attempt; the attempt itself fails with "a guest was started". */
async function attempts(given: Given = {}) {
  const { earlier = null, revision = task, isShared = false, notLoaded = null, notYet = null } = given;
  const events = new AllRunEvents();
  const queue = new FakeRunQueue({ isShared });
  await queue.submit(newRun('r1', { maxAttempts: 2 }));
  const [claim] = (await queue.claim('n1', 'default', 1, 30_000, () => true)) as [Claim];
  const sent: RunEvent[] = [];
  let isSenderClosed = false;
  const all = new RunAttempts({
    engine: {
      ...{ events, queue },
      journals: { earlier: () => (earlier instanceof Error ? Promise.reject(earlier) : Promise.resolve(earlier)) },
      sendEvents: () => ({
        add: (event: RunEvent) => void sent.push(event),
        close: async () => {
          isSenderClosed = true;
        },
      }),
    },
    stops: { of: () => null },
    tasks: {
      revision: () => (revision instanceof Error ? Promise.reject(revision) : Promise.resolve(revision)),
      notLoaded: () => notLoaded,
    },
    readiness: { blocks: () => notYet },
    streams: { listen: () => ({ close: async () => {} }) },
    runtimes: { using: () => Promise.reject(new Error('a guest was started')) },
    traces: null,
  } as unknown as NodeContext);
  const make = (more: Partial<Claim> = {}) => all.attempt({ ...claim, ...more }, new AbortController().signal);
  const statuses = () => sent.map(({ data }) => (JSON.parse(data) as { status: string }).status);
  return { make, claim, sent, statuses, events, isSenderClosed: () => isSenderClosed };
}

const ended = (status: string, reason: string, message: unknown) => ({
  kind: 'ended',
  ending: { status, exit: { reason, code: null, message } },
});

describe('a claimed run', () => {
  it('is attempted, and an attempt that could not be made counts and is retried', async () => {
    const { make, statuses, isSenderClosed, events } = await attempts();
    expect(await make()).toEqual({ kind: 'again', counts: true, pause: false, why: 'a guest was started' });
    expect([statuses(), isSenderClosed()]).toEqual([['running', 'queued'], true]);
    expect(events.of('r1')?.hasEnded).toBe(false);
  });

  it('that was cancelled before it was claimed ends without a guest', async () => {
    const { make, statuses, events } = await attempts();
    expect(await make({ isCancelled: true })).toMatchObject(ended('cancelled', 'cancelled', expect.any(String)));
    expect([statuses(), events.of('r1')?.hasEnded]).toEqual([['running', 'cancelled'], true]);
  });

  it('that has lost all its attempts is dead, and names the last node', async () => {
    const { make, claim } = await attempts();
    expect(await make({ attempt: 3 })).toMatchObject(ended('dead', 'lost', expect.stringMatching(/2 attempts.* n1$/)));
    expect(await make({ ...claim, attempt: 2 })).toMatchObject({ kind: 'again' });
  });

  it.each([
    ['sends the revision', { revision: new Error('ECONNREFUSED'), notLoaded: 'no snapshot yet', isShared: true }],
    ['sends its servers', { notYet: 'no snapshot yet' }],
  ])('waits until the registry %s: not counted, and runs of other namespaces start [node.ready]', async (_, given) => {
    const { make } = await attempts(given);
    const why = expect.stringContaining('no snapshot yet');
    expect(await make()).toEqual({ kind: 'again', counts: false, pause: false, holds: 'namespace', why });
  });

  it('whose revision cannot be loaded from a registry that has responded is retried and counted', async () => {
    const { make } = await attempts({ revision: new Error('ECONNREFUSED'), isShared: true });
    expect(await make()).toEqual({ kind: 'again', counts: true, pause: false, why: 'ECONNREFUSED' });
  });

  it('whose journal cannot be read is dead: a new attempt would repeat what was done', async () => {
    const { make } = await attempts({ earlier: new JournalError('r1.journal', 'line 3 was changed') });
    expect(await make()).toMatchObject(ended('dead', 'journal', 'r1.journal: line 3 was changed'));
  });

  it.each(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOSPC'])(
    'whose journal cannot be read for %s is retried after a pause and not counted [node.pressure]',
    async (code) => {
      const cause = Object.assign(new Error(code), { code });
      const { make } = await attempts({ earlier: new JournalError('r1.journal', `cannot read (${code})`, cause) });
      const outcome = await make();
      expect(outcome).toMatchObject({ kind: 'again', counts: false, pause: true });
      expect(outcome).toMatchObject({ why: expect.stringContaining(`r1.journal: cannot read (${code})`) });
    },
  );

  it('whose journal fails with EIO is retried, and dead at the third time in a row, with the file [node.pressure]', async () => {
    const cause = Object.assign(new Error('EIO'), { code: 'EIO' });
    const { make } = await attempts({ earlier: new JournalError('r1.journal', 'cannot read (EIO)', cause) });
    const retried = { kind: 'again', counts: false, pause: true, why: 'r1.journal: cannot read (EIO)' };
    expect([await make(), await make()]).toMatchObject([retried, retried]);
    expect(await make()).toMatchObject(ended('dead', 'journal', expect.stringMatching(/^r1\.journal: .*EIO.*disk/)));
  });

  it('whose journal cannot be reached is left to the dispatcher, which retries', async () => {
    const { make, sent } = await attempts({ earlier: new Error('EIO') });
    await expect(make()).rejects.toThrow('EIO');
    expect(sent).toEqual([]);
  });

  it('whose journal has its end gets that outcome, also where it was cancelled since', async () => {
    const end = { reason: 'exit', exit: 3, message: null } as unknown as NonNullable<EarlierAttempt['end']>;
    const { make } = await attempts({ earlier: { ...earlierAttempt, end } });
    expect(await make({ isCancelled: true })).toEqual({
      kind: 'ended',
      ending: {
        status: 'failed',
        exit: { reason: 'exit', code: 3, message: null },
        cost,
        result: Buffer.from('so far'),
      },
    });
  });

  it.each(['interrupted', 'parked', 'journal', 'internal', 'lost'])(
    'whose journal ends as %s is attempted again',
    async (reason) => {
      const end = { reason, exit: null, message: null } as unknown as NonNullable<EarlierAttempt['end']>;
      const { make } = await attempts({ earlier: { ...earlierAttempt, end } });
      expect(await make()).toMatchObject({ kind: 'again', why: 'a guest was started' });
    },
  );

  it.each([
    ['is not here', null],
    ['has another module', { ...task, wasm: 'b'.repeat(64) }],
  ])(
    'whose task revision %s is dead on a single node, and retried where other nodes may have it',
    async (_, revision) => {
      const why = 'revision 1 of the task is no longer stored on this node';
      expect(await (await attempts({ revision })).make()).toMatchObject(ended('dead', 'task', why));
      const shared = await attempts({ revision, isShared: true });
      expect(await shared.make()).toEqual({ kind: 'again', counts: true, pause: false, why });
    },
  );

  it.each([
    ['first', 1, null, 1],
    ['second', 2, null, 2],
    ['resumed for the first time', 1, 0, 2],
    ['resumed for the fourth time', 1, 3, 5],
  ] as const)('that is %s numbers its events after those of earlier lives', async (_, attempt, resumed, life) => {
    const { make, sent } = await attempts({ earlier: resumed === null ? null : { ...earlierAttempt, resumed } });
    await make({ attempt });
    expect(sent.map(activationOf)).toEqual([life, life]);
  });
});
