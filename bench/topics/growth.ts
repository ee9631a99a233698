import { i32Const } from '../../test/support/wasm-encoder.ts';
import { BenchGuest } from '../guests/bench-guest.ts';
import { GuestProcess } from '../guests/guest-process.ts';
import { branchIf, countDown, DROP, END, LOOP, mustBe } from '../guests/instructions.ts';
import { WALK } from '../guests/loop-module.ts';
import { type McpHost, openMcpHost } from '../guests/mcp-host.ts';
import { steppingGuest } from '../guests/stepping-guest.ts';
import { SENTENCE } from '../guests/texts.ts';
import { interleave, type Side } from '../measure/rounds.ts';
import { goal, type Row, rowFrom, rowWithRatios, type Unit } from '../measure/row.ts';
import { inMicroseconds, stepInTurns } from '../measure/stepped.ts';
import type { Effort, Topic } from './topic.ts';

const FEW = 10;
const MANY = 10_000;
/** A thousand times as many may cost twice as much: a larger table is less often in the cache of the processor. */
const LIMIT = 2;
const OUT_EVENT = 4;
const ADD = 1;
const never = new AbortController().signal;
const NS_PER_US = 1_000;

/** The same at two sizes: what grows with a guest shows in the ratio. */
export const topic: Topic = async (effort) => [
  ...(await descriptors(effort)),
  await writes(effort),
  await sends(effort),
  ...(await servers(effort)),
];

const textOf = (name: string, unit: Unit, than: string, limit: number) =>
  ({ topic: 'growth', name, unit, yardstickName: than, goal: goal.ratioAtMost(limit) }) as const;

interface Crowd {
  readonly guest: BenchGuest;
  readonly count: number;
  readonly first: number;
  readonly epoll: number;
}

async function openCrowd(count: number): Promise<Crowd> {
  const limits = { max_fds: 2 * MANY, max_sessions: 2 * MANY };
  const guest = await BenchGuest.open({ limits });
  const first = await guest.call('cchat_create');
  for (let made = 1; made < count; made++) await guest.call('cchat_create');
  const epoll = await guest.call('spear_epoll_create');
  for (let index = 0; index < count; index++) {
    await guest.call('spear_epoll_ctl', epoll, ADD, first + index, OUT_EVENT - 1); // waits for what does not come
  }
  return { guest, count, first, epoll };
}

async function descriptors(effort: Effort): Promise<Row[]> {
  const crowds = [await openCrowd(FEW), await openCrowd(MANY)];
  const calls = 1_000;
  const each = (run: (crowd: Crowd) => Promise<number>, operations: number): Side[] =>
    crowds.map((crowd) => ({ operations, run: () => run(crowd) }));
  const contests = [
    each(
      ({ guest, first, count }) => guest.loop(WALK, calls, first, count, ...guest.out().slice(0, 1), 0, guest.out()[1]),
      calls,
    ),
    each(({ guest }) => guest.loop('cchat_create + cchat_close', calls), calls),
    each(({ guest, epoll, count }) => guest.loop('spear_epoll_wait', MANY / count, epoll, ...guest.out(), 0), MANY),
  ];
  const names = [
    'spear_fd_ctl, one fd after the other',
    'cchat_create + cchat_close',
    'spear_epoll_wait(0), for each fd',
  ];
  const samples = await interleave(contests, { rounds: effort.of(61, 301), warmUp: 60 });
  for (const { guest } of crowds) await guest.close();
  return names.map((name, index) => {
    const [few = [], many = []] = samples[index] ?? [];
    return rowFrom(textOf(`${name}: ${MANY} fds`, 'ns', `${FEW} fds`, LIMIT), many, few);
  });
}

async function writes(effort: Effort): Promise<Row> {
  const guest = await BenchGuest.open();
  const texts = [...guest.text('user'), ...guest.text(SENTENCE)];
  const side = (messages: number): Side => {
    const sessions = MANY / messages / 10; // so that a sample of either size takes about as long
    return {
      operations: messages * Math.max(1, sessions),
      run: async () => {
        for (let made = 0; made < Math.max(1, sessions); made++) {
          const session = await guest.call('cchat_create');
          await guest.loop('cchat_write_msg', messages, session, ...texts);
          await guest.call('cchat_close', session);
        }
      },
    };
  };
  const [[few = [], many = []] = []] = await interleave([[side(FEW * FEW), side(MANY)]], {
    rounds: effort.of(21, 101),
    warmUp: 10,
  });
  await guest.close();
  return rowFrom(textOf(`cchat_write_msg: a session of ${MANY}`, 'ns', `a session of ${FEW * FEW}`, LIMIT), many, few);
}

/** A session that holds `messages` messages; a step says one more and sends. The model is the built-in stub. */
const conversation = (messages: number) =>
  steppingGuest({
    setup: (steps) => [
      ...steps.set(0, steps.call('cchat_create')),
      ...steps.set(1, i32Const(messages)),
      ...LOOP,
      ...mustBe(steps.call('cchat_write_msg', steps.get(0), ...steps.text('user'), ...steps.text(SENTENCE)), 0),
      ...[...countDown(1), ...branchIf(0), ...END],
      ...[...steps.call('cchat_close', steps.call('cchat_send', steps.get(0), 0)), ...DROP],
    ],
    step: (steps) => [
      ...mustBe(steps.call('cchat_write_msg', steps.get(0), ...steps.text('user'), ...steps.text('And now?')), 0),
      ...[...steps.call('cchat_close', steps.call('cchat_send', steps.get(0), 0)), ...DROP],
    ],
  });

async function sends(effort: Effort): Promise<Row> {
  const few = new GuestProcess({ wasm: conversation(FEW) });
  const many = new GuestProcess({ wasm: conversation(MANY) });
  try {
    const rounds = { rounds: effort.of(11, 41), steps: 20, warmUp: effort.of(100, 300) };
    const samples = await stepInTurns(
      (count) => many.steps(count),
      (count) => few.steps(count),
      rounds,
    );
    const text = textOf(`cchat_send: a session of ${MANY}`, 'µs', `a session of ${FEW}`, LIMIT);
    return rowWithRatios(text, inMicroseconds(samples));
  } finally {
    await few.close();
    await many.close();
  }
}

async function servers(effort: Effort): Promise<Row[]> {
  const [one, ten] = [openMcpHost(1, FEW), openMcpHost(10, 50)];
  const inject = ({ guest }: McpHost) =>
    guest.inject({ session: 'chat-1', params: [], guestTools: new Set(), maxOutputBytes: 65_536 }, never);
  const call = ({ guest }: McpHost) => {
    const about = { serverId: 'server0', tool: 'tool_number_3', callId: 'call-1', session: 'mcp-1' };
    return guest.call({ ...about, arguments: '{"path":"a.txt"}' }, never);
  };
  try {
    for (const host of [one, ten]) await inject(host);
    const contests = [
      [side(() => inject(one), FEW), side(() => inject(ten), 500)],
      [side(() => call(one), 1), side(() => call(ten), 1)],
    ];
    const samples = await interleave(contests, { rounds: effort.of(41, 201), warmUp: 30 });
    const us = (values: readonly number[] = []) => values.map((ns) => ns / NS_PER_US);
    const names = ['injection, for each tool: 10 servers × 50 tools', 'MCP call: 10 servers × 50 tools'];
    return names.map((name, index) => {
      const [few, many] = samples[index] ?? [];
      return rowFrom(textOf(name, 'µs', '1 server × 10 tools', LIMIT), us(many), us(few));
    });
  } finally {
    await one.close();
    await ten.close();
  }
}

const side = (run: () => Promise<unknown>, operations: number): Side => ({ operations, run });
