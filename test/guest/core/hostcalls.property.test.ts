import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Call, calls } from '../../../src/abi/calls.ts';
import type { ScriptTurn } from '../../../src/chat/backends/script-schema.ts';
import { slot } from '../../support/forwarder.ts';
import { TestGuest } from '../../support/test-guest.ts';
import { type DescriptorKind, MEMORY_PAGES, type RandomArgument, type RandomCall, randomCall } from './random-calls.ts';
import { ARENA } from './random-texts.ts';

const RUNS = 440;
const MAX_CALLS_PER_RUN = 600;
/** Always the same calls: a failure prints the seed and the path to the smallest run that fails. */
const SEED = 20_261;

const ENOSPC = -28;
const RECORD_BYTES = 8;
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
let made = 0;
const seen = new Map<string, number>();

it('whatever is thrown at it, a call gives a documented result and writes into its buffer alone [abi.fuzz]', {
  timeout: 120_000,
}, async () => {
  const runs = fc.array(randomCall, { minLength: 1, maxLength: MAX_CALLS_PER_RUN, size: 'max' });
  await fc.assert(fc.asyncProperty(runs, runCalls), { seed: SEED, numRuns: RUNS });
  expect(made).toBeGreaterThanOrEqual(100_000);
  // The calls were not all refused at the door: each was made, and those that can succeed did.
  expect(calls.map(({ name }) => name).filter((name) => !seen.has(name))).toEqual([]);
  for (const name of [
    'cchat_send',
    'cchat_recv',
    'cchat_ctl',
    'cchat_write_msg',
    'cchat_write_fn',
    'spear_epoll_wait',
  ] as const) {
    expect(seen.get(`${name} ok`) ?? 0).toBeGreaterThan(100);
  }
});

async function runCalls(random: readonly RandomCall[]): Promise<void> {
  const guest = await TestGuest.open({
    turns,
    pages: MEMORY_PAGES,
    limits: { max_fds: 48, max_sessions: 32, max_session_bytes: 16_384 },
  });
  const callback = guest.tool((call) => (call.capacity >= 2 ? call.answer('ok') : ENOSPC));
  expect(callback).toBe(slot.firstCallback);
  const descriptors: Descriptors = {
    session: [await guest.call('cchat_create')],
    response: [],
    epoll: [await guest.call('spear_epoll_create')],
  };
  const opens: Partial<Record<string, number[]>> = {
    cchat_create: descriptors.session,
    cchat_send: descriptors.response,
    spear_epoll_create: descriptors.epoll,
  };
  try {
    for (const call of random) {
      const result = await makeCall(guest, call, descriptors);
      made++;
      count(call.name);
      if (result >= 0) count(`${call.name} ok`);
      if (result >= 0) opens[call.name]?.push(result);
      guest.output.length = 0;
    }
  } finally {
    await guest.close();
  }
}

const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);

async function makeCall(guest: TestGuest, call: RandomCall, descriptors: Descriptors): Promise<number> {
  const memory = guest.heap.bytes;
  const args = call.args.flatMap((argument) => place(memory, argument, descriptors));
  const before = Buffer.from(memory);
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
