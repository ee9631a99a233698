import { McpCall } from '../../src/runtime/guest/descriptors/mcp-entries.ts';
import { BenchGuest, type BenchGuestOptions } from '../guests/bench-guest.ts';
import { interleave, type Side } from '../measure/rounds.ts';
import { goal, rowFrom } from '../measure/row.ts';
import { bareImports } from './bare-imports.ts';
import { type HostcallCase, sidesOf } from './hostcall-cases.ts';
import type { Topic } from './topic.ts';

const CALLS_PER_SAMPLE = 200;
const WARM_UP_ROUNDS = 150;
const RESULT = '{"content":[{"text":"It is 21 degrees in Lisbon, with a light wind from the west.","type":"text"}]}';
const OUT = 4;
const ADD = 1;

const AT_ONCE = 'Suspending import that returns at once';
const RECORD = 'Suspending import that makes a record';
const COPY = 'Suspending import that copies the body';

export interface WaitingBench {
  readonly cases: readonly HostcallCase[];
  readonly contests: (callsPerSample: number) => [yardstick: Side, ours: Side][];
  close(): Promise<void>;
}

/** Calls that are made to wait, at a moment at which there is nothing to wait for. */
export async function openWaitingBench(options: Pick<BenchGuestOptions, 'table'> = {}): Promise<WaitingBench> {
  const handedOut = { status: '', metrics: '', body: Buffer.from(RESULT) };
  const guest = await BenchGuest.open({ ...options, bare: bareImports(handedOut) });
  const epoll = await guest.call('spear_epoll_create');
  const session = await guest.call('cchat_create');
  await guest.call('spear_epoll_ctl', epoll, ADD, session, OUT);
  const empty = await guest.call('spear_epoll_create');
  const result = new McpCall(() => {});
  result.complete(Buffer.from(RESULT), '{}');
  const finished = guest.openFd(result);

  const out = guest.out();
  const cases: HostcallCase[] = [
    {
      name: 'spear_epoll_wait(0), nothing ready',
      call: 'spear_epoll_wait',
      bare: AT_ONCE,
      args: () => [empty, ...out, 0],
      bareArgs: () => [1, 2],
      expected: (found) => found === 0,
    },
    {
      name: 'spear_epoll_wait(0), one ready',
      call: 'spear_epoll_wait',
      bare: RECORD,
      args: () => [epoll, ...out, 0],
      bareArgs: () => [session, ...out, OUT],
      expected: (found) => found === 1,
    },
    {
      name: 'mcp_result, ready',
      call: 'mcp_result',
      bare: COPY,
      args: () => [finished, ...out],
      bareArgs: () => [finished, ...out],
      expected: (found) => found === RESULT.length,
    },
    {
      name: 'sleep_ms(0)',
      call: 'sleep_ms',
      bare: AT_ONCE,
      args: () => [0],
      bareArgs: () => [1, 2],
      expected: (found) => found === 0,
    },
  ];
  return {
    cases,
    contests: (callsPerSample) => cases.map((each) => sidesOf(guest, each, callsPerSample)),
    close: () => guest.close(),
  };
}

export const topic: Topic = async (effort) => {
  const { cases, contests, close } = await openWaitingBench();
  try {
    const rounds = { rounds: effort.of(101, 1_001), warmUp: WARM_UP_ROUNDS };
    const samples = await interleave(contests(CALLS_PER_SAMPLE), rounds);
    return cases.map(({ name, bare }, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      const text = {
        topic: 'waiting',
        name,
        unit: 'ns',
        yardstickName: bare,
        goal: goal.ratioAtMost(1.5),
      } as const;
      return rowFrom(text, ours, yardstick);
    });
  } finally {
    await close();
  }
};
