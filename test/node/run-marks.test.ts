import { expect, it } from 'vitest';
import { RunMarks } from '../../src/node/run-marks.ts';
import type { WaitingApproval } from '../../src/run/long-waits.ts';
import type { Claim, RunMark } from '../../src/server/queue/run-queue.ts';
import type { RunDegradation } from '../../src/server/records/run.ts';

function open(earlier: readonly RunDegradation[] | null = null, mark: () => Promise<boolean> = async () => true) {
  const stored: RunMark[] = [];
  const events: unknown[] = [];
  const logged: string[] = [];
  const run = { id: 'r1', namespace: 'default', task: 'agent', degraded: earlier };
  const marks = new RunMarks({
    queue: {
      mark: (_claim, given) => {
        stored.push(given);
        return mark();
      },
    },
    claim: { run } as unknown as Claim,
    events: { emit: (_event, data) => void events.push(data) },
    log: (level, event, fields = {}) => void logged.push(`${level} ${event} ${String(fields.message)}`),
  });
  return { marks, stored, events, logged };
}

const lost = (server: string): RunDegradation => ({ server, reason: `${server} is away` });
const approval = { request: 'q1' } as WaitingApproval;

it('a wait for a server and a wait for an approval are stored together [mcp.wait-status]', async () => {
  const { marks, stored, events } = open();
  marks.onServerWait('server mute: tools/list, 1 s of 60');
  marks.onWaiting([approval]);
  marks.onServerWait(null);
  await marks.onDegraded([lost('mute')]);
  expect(stored).toEqual([
    { status: 'running', reason: 'server mute: tools/list, 1 s of 60' },
    { status: 'waiting', reason: 'server mute: tools/list, 1 s of 60' },
    { status: 'waiting', reason: null },
    { status: 'waiting', reason: null, degraded: [lost('mute')] },
  ]);
  expect(events).toHaveLength(4);
});

it('servers that an earlier attempt lacked stay in the mark and are logged once [run.degraded]', async () => {
  const { marks, stored, logged } = open([lost('one')]);
  await marks.onDegraded([lost('one')]);
  expect([stored, logged, marks.degraded]).toEqual([[], [], [lost('one')]]);
  await marks.onDegraded([lost('two')]);
  expect(marks.degraded).toEqual([lost('one'), lost('two')]);
  expect(logged).toEqual(['warn run_degraded two is away']);
});

it('a mark that cannot be stored is logged, and the run continues [run.degraded]', async () => {
  const { marks, logged } = open(null, () => Promise.reject(new Error('no space')));
  await marks.onDegraded([lost('one')]);
  expect(logged).toEqual(['warn run_degraded one is away', 'warn not_marked no space']);
  expect(marks.degraded).toEqual([lost('one')]);
});
