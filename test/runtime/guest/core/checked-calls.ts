import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import { type Call, calls } from '../../../../src/runtime/abi/calls.ts';
import { slot } from '../../../support/forwarder.ts';
import { TestGuest, type TestGuestOptions } from '../../../support/test-guest.ts';
import { type DescriptorKind, MEMORY_PAGES, type RandomArgument, type RandomCall } from './random-calls.ts';
import { ARENA } from './random-texts.ts';

const ENOSPC = -28;
const RECORD_BYTES = 8;
/** What lies in the memory before a call, but for its beginning: nothing that a call would write by sources. */
const UNTOUCHED = 0x5a;
const ZEROS = 0x4000;
/** A wait that nothing will end is ended from outside after this. */
const PATIENCE_MS = 10;

const turns: readonly ScriptTurn[] = [
  {
    when: { role: 'user', tools: ['sum'] },
    reply: { tool_calls: [{ id: 'call_1', name: 'sum', arguments: {} }] },
    repeat: true,
  },
  { reply: { content: 'hello' }, repeat: true },
];

const rows = new Map<string, Call>(calls.map((row) => [row.name, row]));
type Descriptors = Readonly<Record<DescriptorKind, number[]>>;

/**
 * Makes the calls one after the other in a guest of their own, which is closed at the end. An undocumented errno, and a
 * byte that was written outside of what a call may write, is an error.
 */
export async function makeCalls(
  random: readonly RandomCall[],
  made: (name: string, result: number) => void,
  options: Pick<TestGuestOptions, 'mcp'> = {},
): Promise<void> {
  const guest = await TestGuest.open({
    ...options,
    turns,
    pages: MEMORY_PAGES,
    limits: { max_fds: 48, max_sessions: 32, max_session_bytes: 16_384 },
  });
  guest.heap.bytes.fill(UNTOUCHED, ZEROS);
  const before = Buffer.allocUnsafeSlow(guest.heap.bytes.byteLength);
  const callback = guest.tool((call) => (call.capacity >= 2 ? call.answer('ok') : ENOSPC));
  if (callback !== slot.firstCallback) throw new Error('the callback is not where the calls look for it');
  const descriptors: Descriptors = {
    session: [await guest.call('cchat_create')],
    response: [],
    epoll: [await guest.call('spear_epoll_create')],
    server: [],
    call: [],
  };
  const opens: Partial<Record<string, number[]>> = {
    cchat_create: descriptors.session,
    cchat_send: descriptors.response,
    spear_epoll_create: descriptors.epoll,
    mcp_open: descriptors.server,
    mcp_submit: descriptors.call,
  };
  try {
    for (const call of random) {
      const result = await makeCall(guest, call, descriptors, before);
      made(call.name, result);
      if (result >= 0) opens[call.name]?.push(result);
      guest.output.length = 0;
    }
  } finally {
    await guest.close();
  }
}

/** `before` takes a copy of the memory: one for all calls, because a new one each time is most of what they cost. */
async function makeCall(guest: TestGuest, call: RandomCall, descriptors: Descriptors, before: Buffer): Promise<number> {
  const memory = guest.heap.bytes;
  const args = call.args.flatMap((argument) => place(memory, argument, descriptors));
  memory.copy(before);
  const result = await withPatience(guest, call, args);
  for (const [from, to] of mayHaveWritten(call, before, result)) memory.copy(before, from, from, to);
  if (!before.equals(memory))
    throw new Error(`${call.name}(${args.join(', ')}) = ${result} wrote outside of its buffer`);
  return result;
}

/** Writes what an argument points at, and gives the parameters. */
function place(memory: Buffer, argument: RandomArgument, descriptors: Descriptors): number[] {
  if ('i32' in argument) return [argument.i32];
  if ('fd' in argument) return [argument.fd];
  if ('recent' in argument) return [descriptors[argument.kind].at(-1 - argument.recent) ?? 0];
  const { ptr, text } = 'range' in argument ? argument.range : argument.buffer;
  if (text) memory.set(text, ptr);
  if ('range' in argument) return [ptr, argument.range.length];
  const { lengthPtr, capacity } = argument.buffer;
  if (capacity !== null) memory.writeUInt32LE(capacity, lengthPtr);
  return [ptr, lengthPtr];
}

async function withPatience(guest: TestGuest, { name }: RandomCall, args: readonly number[]): Promise<number> {
  const endTheWait = () => {
    guest.state.fds.close(args[0] as number);
    guest.state.wait.notify();
  };
  const timer = name === 'spear_epoll_wait' && args.at(-1) !== 0 ? setTimeout(endTheWait, PATIENCE_MS) : undefined;
  try {
    return Number((await guest.enter(name, ...args)) ?? 0);
  } finally {
    clearTimeout(timer);
  }
}

/** The ranges that a call with this result was allowed to write to. */
function* mayHaveWritten(
  { name, args }: RandomCall,
  before: Buffer,
  result: number,
): Generator<[from: number, to: number]> {
  if (name === 'cchat_send' || name === 'spear_epoll_wait') yield [ARENA.ptr, ARENA.ptr + ARENA.length];
  if ((result < 0 && result !== ENOSPC) || takesNothingOut(name, args)) return;
  for (const argument of args) {
    if (!('buffer' in argument)) continue;
    const { ptr, lengthPtr } = argument.buffer;
    yield [lengthPtr, lengthPtr + 4];
    if (result === ENOSPC) continue;
    const written = name === 'spear_epoll_wait' ? result * RECORD_BYTES : result;
    const capacity = before.readUInt32LE(lengthPtr);
    if (written > capacity) throw new Error(`${name} says it wrote ${written} bytes into ${capacity}`);
    yield [ptr, ptr + written];
  }
}

/** Whether the command of a `*_ctl` call takes its argument in, or none. */
function takesNothingOut(name: string, args: readonly RandomArgument[]): boolean {
  const commands = rows.get(name)?.commands ?? {};
  const command = args.find((argument) => 'i32' in argument);
  return command !== undefined && command.i32 in commands && commands[command.i32]?.arg !== 'out';
}
