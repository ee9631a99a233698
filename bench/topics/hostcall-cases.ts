import type { ScriptTurn } from '../../src/agent/chat/backends/script-schema.ts';
import { fail } from '../../src/runtime/abi/errno.ts';
import { BenchGuest, type BenchGuestOptions } from '../guests/bench-guest.ts';
import { FLAGS, LONG_TEXT, PARAM, SENTENCE, TOOL } from '../guests/texts.ts';
import type { Side } from '../measure/rounds.ts';
import { type BareName, bareImports, type HandedOut } from './bare-imports.ts';

/** A hostcall beside the bare import that does what it cannot do without. */
export interface HostcallCase {
  readonly name: string;
  /** Export of the loop module. */
  readonly call: string;
  readonly bare: BareName;
  /** Made anew before every sample: what a call writes must not pile up. */
  readonly args: () => Promise<number[]> | number[];
  readonly bareArgs: () => number[];
  /** Where the time goes, if the goal is missed. */
  readonly cause?: string;
  /** What the calls must give; anything else means that something else was measured. */
  readonly expected: (result: number) => boolean;
}

/** A short paragraph, as models answer. */
const ANSWER: ScriptTurn = {
  reply: {
    content:
      'WebAssembly is a binary instruction format for a stack machine. Programs compiled to it run at nearly native ' +
      'speed inside a sandbox: they see their own linear memory and the functions that the host gives them, and nothing ' +
      'else. A host call is how such a program asks for anything beyond that, so what one costs decides how small the ' +
      'steps of a guest may be.',
  },
  repeat: true,
};

const isZero = (result: number) => result === 0;
const isLength = (result: number) => result > 0;
const isAnything = () => true;
const is = (failure: { readonly returned: number }) => (result: number) => result === failure.returned;

const BARE: BareName = 'import that returns at once';
const BARE_ARGS = () => [1, 2];

export interface HostcallBench {
  readonly guest: BenchGuest;
  /** A session that nothing happens on, and a response that has arrived. */
  readonly idle: number;
  readonly answered: number;
  /** A session without any message, in the place of the one before. */
  readonly fresh: () => Promise<number>;
  /** Those that have a goal. */
  readonly local: readonly HostcallCase[];
  /** The others: cheap ones beside an import that does nothing. */
  readonly others: readonly HostcallCase[];
}

/** A guest, and every hostcall that never waits, in the state in which a guest meets it most. */
export async function openHostcallBench(options: Pick<BenchGuestOptions, 'table'> = {}): Promise<HostcallBench> {
  const handedOut: HandedOut = { status: '', metrics: '', body: new Uint8Array() };
  const guest = await BenchGuest.open({ ...options, turns: [ANSWER], bare: bareImports(handedOut) });
  const answered = await answeredSend(guest);
  const idle = await guest.call('cchat_create');
  const learn = async (call: 'cchat_ctl' | 'spear_fd_ctl', fd: number, command: number) =>
    guest.written(await guest.call(call, fd, command, ...guest.out()));
  handedOut.metrics = await learn('cchat_ctl', answered, 2);
  handedOut.status = await learn('spear_fd_ctl', idle, 4);
  handedOut.body = Buffer.from(guest.written(await guest.call('cchat_recv', answered, ...guest.out())));

  const fresh = freshSession(guest);
  const role = guest.text('user');
  const write = (content: string) => ({
    call: 'cchat_write_msg',
    bare: 'decode and keep role and text' as const,
    texts: [...role, ...guest.text(content)],
  });
  const message = ({ texts, ...rest }: ReturnType<typeof write>, name: string): HostcallCase => ({
    ...rest,
    name,
    args: async () => [await fresh(), ...texts],
    bareArgs: () => [0, ...texts],
    expected: isZero,
  });
  const param = guest.arg(PARAM);
  const flags = guest.arg(FLAGS);
  const out = () => guest.out();
  const local: HostcallCase[] = [
    message(write(SENTENCE), 'cchat_write_msg 64 B'),
    message(write(LONG_TEXT), 'cchat_write_msg 4 KB'),
    {
      name: 'cchat_ctl SET_PARAM',
      call: 'cchat_ctl',
      bare: 'decode + JSON.parse',
      args: async () => [await fresh(), 1, ...param],
      bareArgs: () => [0, 1, ...param],
      expected: isZero,
    },
    {
      name: 'cchat_ctl GET_METRICS',
      call: 'cchat_ctl',
      bare: 'encode the metrics',
      args: () => [answered, 2, ...out()],
      bareArgs: () => [0, 2, ...out()],
      expected: isLength,
    },
    {
      name: 'cchat_recv',
      call: 'cchat_recv',
      bare: 'copy the body',
      cause: 'some 20 ns of checks (the range, the descriptor, its kind) beside a copy that takes as long',
      args: () => [answered, ...out()],
      bareArgs: () => [0, ...out()],
      expected: isLength,
    },
    {
      name: 'spear_fd_ctl SET_FLAGS',
      call: 'spear_fd_ctl',
      bare: 'decode + JSON.parse',
      args: () => [idle, 1, ...flags],
      bareArgs: () => [0, 1, ...flags],
      expected: isZero,
    },
    {
      name: 'spear_fd_ctl GET_STATUS',
      call: 'spear_fd_ctl',
      bare: 'encode the status',
      args: () => [idle, 4, ...out()],
      bareArgs: () => [0, 4, ...out()],
      expected: isLength,
    },
  ];

  const epoll = await guest.call('spear_epoll_create');
  await guest.call('spear_epoll_ctl', epoll, 1, idle, 4);
  /** Beside an import that does nothing, unless the work of another is what the call cannot do without. */
  const plain = (
    call: string,
    args: HostcallCase['args'],
    expected: HostcallCase['expected'],
    [bare, bareArgs]: readonly [BareName, () => number[]] = [BARE, BARE_ARGS],
  ): HostcallCase => ({ name: call, call, bare, args, bareArgs, expected });
  const [content, tool, feature, id] = [
    guest.text(SENTENCE),
    guest.text(TOOL),
    guest.text('epoll'),
    guest.text('call_1'),
  ];
  const clock = ['read the clock', () => []] as const;
  const others: HostcallCase[] = [
    plain('spear_abi_version', () => [], isAnything),
    plain(
      'spear_feature',
      () => feature,
      (result) => result === 1,
    ),
    plain('time_now_ms', () => [], isAnything, clock),
    plain('wall_time_s', () => [], isAnything, clock),
    plain('random_i64', () => [], isAnything),
    plain('log', () => [2, ...content], isZero, ['decode a text, encode a line', () => [2, ...content]]),
    plain('cchat_create + cchat_close', () => [], isZero),
    plain('cchat_write_fn', async () => [await fresh(), -1, ...tool], isZero, [
      'decode, JSON.parse, keep',
      () => [0, -1, ...tool],
    ]),
    plain('cchat_write_tool_result', () => [idle, ...id, ...content], is(fail.ENOENT), [
      'decode role and text',
      () => [0, ...id, ...content],
    ]),
    plain('cchat_read', () => [answered, ...out()], is(fail.EINVAL), [
      'Suspending import that returns at once',
      BARE_ARGS,
    ]),
    plain('spear_epoll_create + spear_epoll_close', () => [], isZero),
    plain('spear_epoll_ctl', () => [epoll, 2, idle, 4], isZero),
    plain('spear_fd_cancel', () => [answered], isZero),
    plain('user_stream_open', () => [1, 3], is(fail.ENOTCONN)),
    plain('rtasr_create', () => [], is(fail.ENOSYS)),
  ];
  return { guest, idle, answered, fresh, local, others };
}

/** The two sides of a case: its yardstick, then the hostcall. */
export function sidesOf(guest: BenchGuest, one: HostcallCase, callsPerSample: number): [yardstick: Side, ours: Side] {
  const side = (name: string, args: HostcallCase['args'], expected: HostcallCase['expected']): Side => {
    let given: number[] = [];
    let result = Number.NaN;
    return {
      operations: callsPerSample,
      before: async () => {
        given = await args();
      },
      run: async () => {
        result = await guest.loop(name, callsPerSample, ...given);
      },
      after: () => {
        if (!expected(result)) throw new Error(`${one.name}: ${name} gave ${result}: the wrong thing is measured`);
      },
    };
  };
  return [side(one.bare, one.bareArgs, isAnything), side(one.call, one.args, one.expected)];
}

/** A response that has arrived. */
async function answeredSend(guest: BenchGuest): Promise<number> {
  const session = await guest.call('cchat_create');
  await guest.call('cchat_write_msg', session, ...guest.text('user'), ...guest.text(SENTENCE));
  return guest.call('cchat_send', session, 1);
}

/** The session of the sample before is closed, and with it everything that was written. */
function freshSession(guest: BenchGuest): () => Promise<number> {
  let session: number | undefined;
  return async () => {
    if (session !== undefined) await guest.call('cchat_close', session);
    session = await guest.call('cchat_create');
    return session;
  };
}
