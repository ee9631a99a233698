import { MessageChannel, type Worker } from 'node:worker_threads';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { PreemptionClock } from '../../../src/runtime/host/preemption-clock.ts';
import { SharedGuestThread } from '../../../src/runtime/host/shared-guest-thread.ts';
import { preemptionWords } from '../../../src/runtime/port/guest-spec.ts';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { disabledTask } from '../../../src/runtime/port/policy-layers.ts';
import type { PreparedModule } from '../../../src/runtime/wasm/prepare.ts';

const { fail, boot } = vi.hoisted(() => {
  const failed = Promise.withResolvers<Error>();
  return { fail: failed.resolve, boot: { failed: failed.promise } };
});
vi.mock(import('../../../src/runtime/host/guest-worker.ts'), async (original) => ({
  ...(await original()),
  sharedWorker: () => {
    const exited = Promise.withResolvers<void>();
    const worker = { ref() {}, unref() {}, terminate: async () => exited.resolve() };
    const { port1: port } = new MessageChannel();
    return { worker: worker as unknown as Worker, port, failed: boot.failed, exited: exited.promise };
  },
}));

const empty = new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
const prepared: PreparedModule = { kind: 'core', module: empty, unknownImports: [], turns: null, unshareable: null };

it('a thread that ends by a system error quarantines no module, and each guest has the error', async () => {
  const quarantined: string[] = [];
  const thread = new SharedGuestThread({
    ...{ namespace: 'default', memoryBytes: 1, changed: () => {}, idle: () => {} },
    clock: { watch: () => () => {} } as unknown as PreemptionClock,
    quarantine: (digest) => void quarantined.push(digest),
  });
  onTestFinished(() => thread.close());
  const spec = {
    ...{ args: [], env: {}, limits: compileLimits({}), mcpTask: disabledTask },
    ...{ servesStreams: false, verbose: false, replay: null, recordedValues: null },
  };
  const losses = ['one', 'two'].map(
    (digest) =>
      new Promise((lost) => {
        thread.open({ spec, prepared, digest, listener: { receive: () => {}, recordEvents: null, lost } });
      }),
  );
  Atomics.store(new Int32Array(thread.turns.buffer), preemptionWords.holder, 1);
  fail(Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' }));
  const failure = { reason: 'internal', systemError: 'EMFILE' };
  expect(await Promise.all(losses)).toMatchObject([failure, failure]);
  expect(quarantined).toEqual([]);
});
