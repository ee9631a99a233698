import { fail } from '../src/abi/errno.ts';
import type { BenchGuest } from './bench-guest.ts';
import { BARE, BARE_SUSPENDING } from './loop-module.ts';

/** One row of the report: an export of the loop module and what it is called with. */
export interface HostcallCase {
  readonly name: string;
  readonly loop: string;
  readonly suspending: boolean;
  /** What the calls must give; anything else means that something else was measured. */
  readonly expected: (result: number) => boolean;
  /** Makes the arguments, anew before every sample: what a call writes must not pile up. */
  readonly args: () => number[];
}

const isZero = (result: number) => result === 0;
const isAnything = () => true;
const is = (failure: { readonly returned: number }) => (result: number) => result === failure.returned;

const SENTENCE = 'A message of sixty-four bytes, which is what people often send.';
const TOOL = '{"name":"sum","description":"Adds two whole numbers.","parameters":{"type":"object"}}';

/** The hostcalls, each in the state in which a guest meets it most. */
export async function hostcallCases(guest: BenchGuest): Promise<HostcallCase[]> {
  const cases: HostcallCase[] = [];
  const add = (
    loop: string,
    args: () => number[],
    expected: HostcallCase['expected'],
    { name = loop, suspending = false }: { name?: string; suspending?: boolean } = {},
  ) => cases.push({ name, loop, suspending, expected, args });

  const answered = await answeredSend(guest);
  const epoll = guest.call('spear_epoll_create');
  const idle = guest.call('cchat_create');
  guest.call('spear_epoll_ctl', epoll, 1, idle, 4);
  const fresh = freshSession(guest);

  const [role, content, tool, feature, id] = [
    guest.text('user'),
    guest.text(SENTENCE),
    guest.text(TOOL),
    guest.text('epoll'),
    guest.text('call_1'),
  ];
  const param = guest.arg('{"key":"temperature","value":0.5}');
  const flags = guest.arg('{"set":["O_NONBLOCK"]}');

  add(BARE, () => [1, 2], isAnything);
  add('spear_abi_version', () => [], isAnything);
  add(
    'spear_feature',
    () => feature,
    (result) => result === 1,
  );
  add('time_now_ms', () => [], isAnything);
  add('wall_time_s', () => [], isAnything);
  add('random_i64', () => [], isAnything);
  add('log', () => [2, ...content], isZero);
  add('cchat_create + cchat_close', () => [], isZero);
  add('cchat_write_msg', () => [fresh(), ...role, ...content], isZero, { name: 'cchat_write_msg, 64 bytes' });
  add('cchat_write_fn', () => [fresh(), -1, ...tool], isZero);
  add('cchat_write_tool_result', () => [idle, ...id, ...content], is(fail.ENOENT), {
    name: 'cchat_write_tool_result, ENOENT',
  });
  add('cchat_ctl', () => [fresh(), 1, ...param], isZero, { name: 'cchat_ctl SET_PARAM' });
  add(
    'cchat_ctl',
    () => [answered, 2, ...guest.out()],
    (result) => result > 0,
    { name: 'cchat_ctl GET_METRICS' },
  );
  add(
    'cchat_recv',
    () => [answered, ...guest.out()],
    (result) => result > 0,
  );
  add('cchat_read', () => [answered, ...guest.out()], is(fail.ENOSYS));
  add('spear_epoll_create + spear_epoll_close', () => [], isZero);
  add('spear_epoll_ctl', () => [epoll, 2, idle, 4], isZero);
  add('spear_fd_ctl', () => [idle, 1, ...flags], isZero, { name: 'spear_fd_ctl SET_FLAGS' });
  add(
    'spear_fd_ctl',
    () => [idle, 4, ...guest.out()],
    (result) => result > 0,
    { name: 'spear_fd_ctl GET_STATUS' },
  );
  add('spear_fd_cancel', () => [answered], isZero);
  add('user_stream_open', () => [1, 3], is(fail.ENOTCONN));
  add('rtasr_create', () => [], is(fail.ENOSYS));

  add(BARE_SUSPENDING, () => [1, 2], isAnything, { suspending: true });
  add('sleep_ms', () => [0], isAnything, { name: 'sleep_ms 0', suspending: true });
  add(
    'spear_epoll_wait',
    () => [epoll, ...guest.out(), 0],
    (result) => result === 1,
    {
      name: 'spear_epoll_wait, ready',
      suspending: true,
    },
  );
  return cases;
}

/** A response that has arrived. */
async function answeredSend(guest: BenchGuest): Promise<number> {
  const session = guest.call('cchat_create');
  guest.call('cchat_write_msg', session, ...guest.text('user'), ...guest.text(SENTENCE));
  return guest.suspendingLoop('cchat_send', 1, session, 1);
}

/** The session of the sample before is closed and with it everything that was written. */
function freshSession(guest: BenchGuest): () => number {
  let session = guest.call('cchat_create');
  return () => {
    guest.call('cchat_close', session);
    session = guest.call('cchat_create');
    return session;
  };
}
