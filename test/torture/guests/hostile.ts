import type { RunReason, ScriptTurn } from '../../../src/index.ts';
import {
  BIG,
  BIG_BYTES,
  call,
  control,
  drop,
  fillBig,
  forever,
  type GuestText,
  LENGTH,
  number,
  say,
  session,
  sessionWithTool,
  setLength,
  text,
  times,
  untilErrno,
  VECTOR,
} from './guest-module.ts';

export interface HostileGuest extends GuestText {
  /** How it ends: at the deadline, unless something else does it before. */
  readonly ends: RunReason;
  /** @default an empty one */
  readonly stdin?: 'endless';
  /** Whether it has a server of MCP. @default false */
  readonly mcp?: true;
  /** Whether it takes seconds to end, so that a short run is without it. @default false */
  readonly slow?: true;
}

/** What a model tells them: it calls the tool of whoever has one. */
export const hostileTurns: readonly ScriptTurn[] = [
  {
    when: { role: 'user', tools: ['sum'] },
    reply: { tool_calls: [{ id: 'call_1', name: 'sum', arguments: {} }] },
    repeat: true,
  },
  { reply: { content: 'hello' }, repeat: true },
];

const fd = '(local.get $s)';
const big = `${number(BIG)} ${number(BIG_BYTES)}`;
const send = (flags: number) => call('cchat_send', fd, number(flags));
const AUTO_TOOL_CALL = 2;
const nonBlocking = control('spear_fd_ctl', fd, 1, 'nonBlocking');
const close = (what = fd) => drop(call('cchat_close', what));
/** A range for WASI: all of the large one. */
const vector = `(i32.store ${number(VECTOR)} ${number(BIG)}) (i32.store ${number(VECTOR + 4)} ${number(BIG_BYTES)})`;
const write = (stream: number) =>
  `${fillBig} ${vector} ${forever(drop(call('fd_write', number(stream), number(VECTOR), number(1), number(LENGTH))))}`;
/** A parameter with as many brackets as fit into it. */
const DEEP_BYTES = 200_000;
const deep = `(memory.fill ${number(BIG)} ${number(91)} ${number(DEEP_BYTES)})`;
const openTiny = `(local.set $s ${call('mcp_open', text('tiny'))})`;

/** Everything by its name. Each runs under the limits that a guest has by default, but for its time. */
export const hostileGuests: Readonly<Record<string, HostileGuest>> = {
  'spins in a loop': { run: forever(), ends: 'deadline' },
  'spins while it is started': { run: '', more: `(func $spin ${forever()}) (start $spin)`, ends: 'deadline' },
  'waits while it is started': {
    run: '',
    more: `(func $wait ${call('sleep_ms', number(1000))}) (start $wait)`,
    ends: 'module',
  },
  'calls itself without end': {
    run: '(call $deeper (i64.const 1)) drop',
    more: '(func $deeper (param i64) (result i64) (i64.add (call $deeper (local.get 0)) (local.get 0)))',
    ends: 'trap',
  },
  'takes all the memory there is, and uses it': {
    run: `${untilErrno(`(memory.grow ${number(16)})`)}
      ${forever(`(memory.fill ${number(BIG)} ${number(1)} (i32.sub (i32.mul (memory.size) ${number(65_536)}) ${number(BIG)}))`)}`,
    ends: 'deadline',
  },
  'takes all the places of a table': {
    run: untilErrno(`(table.grow $t (ref.null func) ${number(1000)})`),
    ends: 'exit',
  },
  'throws exceptions without end': {
    run: forever('(block $caught (try_table (catch_all $caught) (throw $oops)))'),
    more: '(tag $oops)',
    ends: 'deadline',
  },
  'keeps exceptions': {
    run: `(table.grow $kept (ref.null exn) ${number(900_000)}) drop
      ${forever(
        `(table.set $kept (local.get $i) (block $caught (result exnref)
          (try_table (catch_all_ref $caught) ${'(i64.const 1) '.repeat(900)} (throw $oops)) unreachable))`,
        `(local.set $i (i32.rem_u (i32.add (local.get $i) ${number(1)}) ${number(900_000)}))`,
      )}`,
    more: `(tag $oops (param ${'i64 '.repeat(900)})) (table $kept 1 exnref)`,
    ends: 'memory',
    slow: true,
  },
  'opens descriptors without end': {
    run: `${untilErrno(call('spear_epoll_create'))} ${forever(drop(call('spear_epoll_create')))}`,
    ends: 'deadline',
  },
  'opens sessions without end': {
    run: `${untilErrno(call('cchat_create'))} ${forever(drop(call('cchat_create')))}`,
    ends: 'deadline',
  },
  'opens and closes sessions': { run: forever(session, close()), ends: 'deadline' },
  'logs without end': {
    run: `${fillBig} ${forever(drop(call('log', number(2), number(BIG), number(16_000))))}`,
    ends: 'deadline',
  },
  'writes to its output without end': { run: write(1), ends: 'deadline' },
  'writes to its errors without end': { run: write(2), ends: 'deadline' },
  'reads an input without end': {
    run: `${vector} ${forever(drop(call('fd_read', number(0), number(VECTOR), number(1), number(LENGTH))))}`,
    stdin: 'endless',
    ends: 'deadline',
  },
  'writes messages until there is no room': {
    run: `${fillBig} ${untilErrno(`(block (result i32) ${session}
      (if (result i32) (i32.lt_s ${fd} ${number(0)}) (then ${fd})
        (else (drop ${call('cchat_write_msg', fd, text('user'), big)}) ${call('cchat_write_msg', fd, text('user'), big)})))`)}`,
    ends: 'exit',
  },
  'sends without waiting, closes, and again': {
    run: `${fillBig} ${forever(session, nonBlocking, say(big), drop(send(0)), close())}`,
    ends: 'deadline',
  },
  'keeps every answer': {
    run: `${fillBig} ${session} ${say(big)} ${forever(drop(send(0)))}`,
    ends: 'deadline',
  },
  'sends and cancels': {
    run: forever(
      session,
      nonBlocking,
      say(),
      `(local.set $r ${send(0)})`,
      drop(call('spear_fd_cancel', '(local.get $r)')),
      close('(local.get $r)'),
      close(),
    ),
    ends: 'deadline',
  },
  'defines tools without end': {
    run: `${session} ${untilErrno(call('cchat_write_fn', fd, number(1), text('sum')))} ${forever()}`,
    ends: 'deadline',
  },
  'sets parameters of many brackets': {
    run: `${session} ${deep} ${setLength(DEEP_BYTES)} ${forever(drop(call('cchat_ctl', fd, number(1), number(BIG), number(LENGTH))))}`,
    ends: 'deadline',
  },
  'has a tool of many brackets': {
    run: `${session} ${deep} ${forever(drop(call('cchat_write_fn', fd, number(1), number(BIG), number(DEEP_BYTES))))}`,
    ends: 'deadline',
  },
  'has a tool that traps': {
    run: `${sessionWithTool} ${drop(send(AUTO_TOOL_CALL))}`,
    tool: 'unreachable',
    ends: 'exit',
  },
  'has a tool that never ends': {
    run: `${sessionWithTool} ${drop(send(AUTO_TOOL_CALL))}`,
    tool: `${forever()} ${number(0)}`,
    ends: 'deadline',
  },
  'has a tool that sends again, and so on': {
    run: `${sessionWithTool} ${drop(send(AUTO_TOOL_CALL))}`,
    tool: `${sessionWithTool} ${drop(send(AUTO_TOOL_CALL))} ${number(0)}`,
    ends: 'exit',
  },
  'has a tool that enters the module again': {
    run: `${sessionWithTool} ${drop(send(AUTO_TOOL_CALL))}`,
    tool: '(call $run)',
    ends: 'exit',
  },
  'has a tool that exits': {
    run: `${sessionWithTool} ${forever(drop(send(AUTO_TOOL_CALL)))}`,
    tool: `${call('proc_exit', number(7))} ${number(0)}`,
    ends: 'exit',
  },
  'has a tool that is none': {
    run: `${session} ${drop(call('cchat_write_fn', fd, number(99), text('sum')))} ${say()} ${drop(send(AUTO_TOOL_CALL))}`,
    ends: 'exit',
  },
  'asks an epoll set without end': {
    run: `(local.set $r ${call('spear_epoll_create')})
      ${times(200, session, drop(call('spear_epoll_ctl', '(local.get $r)', number(1), fd, number(29))))}
      ${forever(setLength(8_000), drop(call('spear_epoll_wait', '(local.get $r)', number(BIG), number(LENGTH), number(0))))}`,
    ends: 'deadline',
  },
  'changes an epoll set without end': {
    run: `(local.set $r ${call('spear_epoll_create')}) ${session} ${forever(
      ...[1, 2, 3].map((op) => drop(call('spear_epoll_ctl', '(local.get $r)', number(op), fd, number(5)))),
    )}`,
    ends: 'deadline',
  },
  'waits for nothing': {
    run: `${setLength(8)} ${drop(call('spear_epoll_wait', call('spear_epoll_create'), number(BIG), number(LENGTH), number(-1)))}`,
    ends: 'deadline',
  },
  'sleeps without end': { run: forever(call('sleep_ms', number(2 ** 31 - 1))), ends: 'deadline' },
  'sleeps for no time at all': { run: forever(call('sleep_ms', number(0))), ends: 'deadline' },
  'takes random numbers without end': {
    run: forever(drop(call('random_get', number(BIG), number(BIG_BYTES)))),
    ends: 'deadline',
  },
  'passes pointers out of its memory': {
    run: forever(
      ...['cchat_recv', 'mcp_list_tools'].map((name) => drop(call(name, number(1000), number(-1), number(-4)))),
      drop(call('log', number(1), number(-1), number(-1))),
    ),
    ends: 'deadline',
  },
  'polls as WASI has it, for a million things': {
    run: forever(drop(call('poll_oneoff', number(BIG), number(BIG), number(100_000), number(LENGTH)))),
    ends: 'deadline',
  },
  'submits calls and closes them': {
    run: `${fillBig} ${openTiny} ${forever(`(local.set $r ${call('mcp_submit', fd, text('echo'), number(BIG), number(60_000))})`, drop(call('mcp_close', '(local.get $r)')))}`,
    mcp: true,
    ends: 'deadline',
  },
  'submits calls and keeps them': {
    run: `${openTiny} ${forever(drop(call('mcp_submit', fd, text('echo'), text('hello'))))}`,
    mcp: true,
    ends: 'deadline',
  },
  'opens servers without end': { run: forever(drop(call('mcp_open', text('tiny')))), mcp: true, ends: 'deadline' },
};
