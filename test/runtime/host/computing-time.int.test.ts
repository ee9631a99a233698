import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { expect, it, onTestFinished } from 'vitest';
import { schedulerOf } from '../../../src/runtime/host/guest-scheduler.ts';
import { GuestThreads } from '../../../src/runtime/host/guest-threads.ts';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { disabledTask } from '../../../src/runtime/port/policy-layers.ts';
import { until } from '../../support/until.ts';

const limits = compileLimits({ turn_ms: 30_000 });

it('what a guest on a shared thread has computed is its own alone [approval.clocks]', async () => {
  const threads = new GuestThreads({ threads: 1 });
  onTestFinished(() => threads.close());
  const scheduler = schedulerOf(threads);
  const seat = async (run: string) => {
    const wasm = await parse(`(module (import "spear" "sleep_ms" (func $sleep (param i32)))
      (memory (export "memory") 1) (func (export "run") (result i32) ${run} (i32.const 0)))`);
    const spec = {
      ...{ args: [], env: {}, limits, mcpTask: disabledTask },
      ...{ servesStreams: false, verbose: false, replay: null, recordedValues: null, unacknowledged: null },
      output: { stdout: null, stderr: null },
    };
    const guest = scheduler.reserve({
      namespace: 'default',
      wasm,
      unshareable: null,
      spec: () => spec,
      dedicatedSpec: () => spec,
    });
    guest.listen({ receive: () => {}, recordEvents: null, lost: () => {} });
    const options = { limits, allowUnknownImports: false, componentCache: null, onNotice: () => {} };
    await guest.start(await scheduler.prepare(wasm, options));
    return guest;
  };
  const waits = await seat('(call $sleep (i32.const 1000000))');
  const spins = await seat('(loop $l (br $l))');
  let computed = 0;
  const look = async () => {
    computed = (await spins.computedMs()) ?? 0;
  };
  const spun = (ms: number) =>
    until(() => {
      void look();
      return computed > ms;
    }, 'the one that spins to have computed');
  await spun(250);
  // By now the other one waits, whatever its beginning cost on a busy machine.
  const before = await waits.computedMs();
  await spun(computed + 250);
  expect(await waits.computedMs()).toBe(before);
  await Promise.all([waits.leave(), spins.leave()]);
});
