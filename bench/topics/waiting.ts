import { McpCall } from '../../src/fd/mcp-entries.ts';
import { BenchGuest } from '../guests/bench-guest.ts';
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

const bare = 'Suspending import that returns at once';
const cause = 'the result is written into the guest’s memory, which the yardstick does not do';

export interface WaitingBench {
  readonly cases: readonly HostcallCase[];
  readonly contests: (callsPerSample: number) => Side[][];
  close(): Promise<void>;
}

/** Calls that are made to wait, at a moment at which there is nothing to wait for. */
export async function openWaitingBench(): Promise<WaitingBench> {
  const guest = await BenchGuest.open({ bare: bareImports({ status: '', metrics: '', body: new Uint8Array() }) });
  const epoll = await guest.call('spear_epoll_create');
  const session = await guest.call('cchat_create');
  await guest.call('spear_epoll_ctl', epoll, ADD, session, OUT);
  const empty = await guest.call('spear_epoll_create');
  const result = new McpCall(() => {});
  result.complete(Buffer.from(RESULT), '{}');
  const finished = guest.openFd(result);

  const one = (name: string, call: string, args: () => number[], expected: number): HostcallCase => ({
    name,
    call,
    bare,
    args,
    bareArgs: () => [1, 2],
    expected: (found) => found === expected,
  });
  const cases = [
    one('spear_epoll_wait(0), nothing ready', 'spear_epoll_wait', () => [empty, ...guest.out(), 0], 0),
    one('spear_epoll_wait(0), one ready', 'spear_epoll_wait', () => [epoll, ...guest.out(), 0], 1),
    one('mcp_result, ready', 'mcp_result', () => [finished, ...guest.out()], RESULT.length),
    one('sleep_ms(0)', 'sleep_ms', () => [0], 0),
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
    return cases.map(({ name }, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      const text = {
        topic: 'waiting',
        name,
        unit: 'ns',
        yardstickName: bare,
        goal: goal.ratioAtMost(1.5),
        cause,
      } as const;
      return rowFrom(text, ours, yardstick);
    });
  } finally {
    await close();
  }
};
