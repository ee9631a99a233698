import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { expect, it, onTestFinished } from 'vitest';
import { schedulerOf } from '../../../src/runtime/host/guest-scheduler.ts';
import { GuestThreads } from '../../../src/runtime/host/guest-threads.ts';
import type { SharedGuestThread } from '../../../src/runtime/host/shared-guest-thread.ts';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { disabledTask } from '../../../src/runtime/port/policy-layers.ts';
import type { PreparedModule } from '../../../src/runtime/wasm/prepare.ts';
import { until } from '../../support/until.ts';

/** What no module that was admitted can do: it waits on the host's control page, and uses no processor time. */
const BLOCKS = `(i32.store $turns (i32.const 128) (i32.const 1))
  (drop (memory.atomic.wait32 $turns (i32.const 64) (i32.const 0) (i64.const -1)))`;
const isBlocked = ({ turns }: SharedGuestThread) => new Int32Array(turns.buffer)[128 / 4] === 1;
const SLEEPS = '(call $sleep (i32.const 1000000))';

/** As the preemption pass leaves a module, without its yield points. */
async function rewritten(run: string): Promise<PreparedModule> {
  const bytes = await parse(`(module (import "spear" "sleep_ms" (func $sleep (param i32)))
    (import "spear:turns" "memory" (memory $own 1 1)) (import "spear:turns" "turns" (memory $turns 1 1 shared))
    (export "memory" (memory $own)) (func (export "run") (result i32) ${run} (i32.const 0)))`);
  const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>);
  const turns = { memory: { initial: 1, maximum: 1 }, hasStart: false };
  return { kind: 'core', module, unknownImports: [], turns, unshareable: null };
}

function open(turnMs: number) {
  const threads = new GuestThreads({ threads: 1 });
  onTestFinished(() => threads.close());
  const scheduler = schedulerOf(threads);
  const limits = compileLimits({ turn_ms: turnMs });
  const lost = new Map<string, string>();
  const place = async (digest: string, run: string) => {
    const spec = {
      ...{ args: [], env: {}, limits, mcpTask: disabledTask },
      ...{ servesStreams: false, verbose: false, replay: null, recordedValues: null },
    };
    const listener = {
      receive: () => {},
      recordEvents: null,
      lost: ({ message }: { message: string }) => void lost.set(digest, message),
    };
    return scheduler.place('default', { spec, prepared: await rewritten(run), digest, listener });
  };
  const isQuarantined = async (digest: string) => scheduler.refusal(await rewritten(SLEEPS), digest) !== null;
  return { place, lost, isQuarantined };
}

it('a thread that is blocked without computing is ended, and the module that blocks it is quarantined [threads.blocked]', async () => {
  const { place, lost, isQuarantined } = open(60);
  await place('sleeps', SLEEPS);
  await place('blocks', BLOCKS);
  await until(() => lost.size === 2, 'both guests to lose their thread');
  expect(lost.get('blocks')).toContain('did not yield for limits.turn_ms = 60');
  expect(lost.get('sleeps')).toContain('another guest blocked it');
  expect([await isQuarantined('blocks'), await isQuarantined('sleeps')]).toEqual([true, false]);
});

it('a guest that cannot be ended is quarantined [threads.blocked]', async () => {
  const { place, lost, isQuarantined } = open(1_000);
  const { thread, guest } = await place('blocks', BLOCKS);
  await until(() => isBlocked(thread), 'the thread to be blocked');
  await thread.end(guest);
  expect(lost.get('blocks')).toContain('the guest could not be stopped');
  expect(await isQuarantined('blocks')).toBe(true);
});

it('a guest that cannot be ended because of another is not quarantined, the other is [threads.blocked]', async () => {
  const { place, lost, isQuarantined } = open(1_000);
  const { thread, guest } = await place('sleeps', SLEEPS);
  await place('blocks', BLOCKS);
  await until(() => isBlocked(thread), 'the thread to be blocked');
  await thread.end(guest);
  expect(lost.get('blocks')).toContain('the guest could not be stopped');
  expect([await isQuarantined('blocks'), await isQuarantined('sleeps')]).toEqual([true, false]);
});
