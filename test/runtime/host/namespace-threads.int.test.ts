import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { GuestThreads, type GuestThreadsOptions, runGuest } from '../../../src/index.ts';
import { until } from '../../support/until.ts';

const module = (run: string) =>
  parse(`(module (import "spear" "sleep_ms" (func $sleep (param i32))) (memory (export "memory") 1)
    (func (export "run") (result i32) ${run}))`);

let sleeping = new Uint8Array();
let answering = new Uint8Array();
beforeAll(async () => {
  sleeping = new Uint8Array(await module('(call $sleep (i32.const 1000000)) (i32.const 0)'));
  answering = new Uint8Array(await module('(i32.const 7)'));
});

function open(options: GuestThreadsOptions) {
  const threads = new GuestThreads(options);
  onTestFinished(() => threads.close());
  const run = (namespace: string, wasm: Uint8Array, more: { signal?: AbortSignal; timeoutMs?: number } = {}) =>
    runGuest({
      ...{ wasm, namespace, threads, output: () => {}, signal: more.signal },
      limits: { turn_ms: 30_000, ...(more.timeoutMs === undefined ? {} : { timeout_ms: more.timeoutMs }) },
    });
  const guests = () => threads.threads.reduce((sum, each) => sum + each.guests, 0);
  /** A run that sleeps, once it has its thread. */
  const sleeper = async (namespace: string) => {
    const before = guests();
    const stop = new AbortController();
    const ended = run(namespace, sleeping, { signal: stop.signal });
    await until(() => guests() === before + 1, `a guest of ${namespace} to be placed`);
    return async () => {
      stop.abort();
      await ended;
    };
  };
  const namespaces = () => threads.threads.map(({ namespace }) => namespace).sort();
  return { run, sleeper, namespaces };
}

it('a namespace gets a thread though another has taken as many as there are processors [threads.first]', async () => {
  const { run, sleeper, namespaces } = open({ threads: 2 });
  await sleeper('one');
  await sleeper('one');
  expect(namespaces()).toEqual(['one', 'one']);
  expect(await run('two', answering)).toMatchObject({ reason: 'exit', exitCode: 7, isolation: { kind: 'shared' } });
  expect(namespaces()).toEqual(['one', 'one', 'two']);
});

it('no namespace gets a second thread beyond the processors [threads.first]', async () => {
  const { sleeper, namespaces } = open({ threads: 1 });
  for (const namespace of ['one', 'two', 'one', 'two']) await sleeper(namespace);
  expect(namespaces()).toEqual(['one', 'two']);
});

it('the thread of a namespace takes the place of an idle one [threads.first]', async () => {
  const { run, sleeper, namespaces } = open({ threads: 1, namespaceThreads: 1 });
  const end = await sleeper('one');
  await sleeper('two');
  await end();
  expect(await run('three', answering)).toMatchObject({ exitCode: 7 });
  expect(namespaces()).toEqual(['three', 'two']);
});

it('no namespace gets a second thread in the place of an idle one beyond the processors [threads.first]', async () => {
  const { run, sleeper } = open({ threads: 1, namespaceThreads: 1, guestsPerThread: 1 });
  await sleeper('one');
  const end = await sleeper('two');
  const waits = run('one', answering);
  await end();
  expect(await run('two', answering)).toMatchObject({ reason: 'exit', exitCode: 7 });
  expect(await waits).toMatchObject({ reason: 'lost', message: 'the guest threads of namespace one are full' });
});

it('an idle thread beyond the processors is closed after a while [threads.first]', async () => {
  const { run, sleeper, namespaces } = open({ threads: 1 });
  await sleeper('one');
  await run('two', answering);
  await until(() => namespaces().length === 1, 'the idle thread to be closed');
  expect(namespaces()).toEqual(['one']);
});

it('a guest for which there is no thread in time ends as lost, not at its deadline [threads.first]', async () => {
  const { run, sleeper } = open({ threads: 1, namespaceThreads: 1 });
  await sleeper('one');
  await sleeper('two');
  expect(await run('three', answering, { timeoutMs: 1 })).toMatchObject({
    reason: 'lost',
    message: 'no guest thread is free for namespace three: all 2 are in use',
    isolation: { kind: 'none' },
  });
});

it('a guest whose namespace has no room ends as lost too, and the next one runs when there is [threads.first]', async () => {
  const { run, sleeper } = open({ threads: 1, guestsPerThread: 1 });
  const end = await sleeper('one');
  expect(await run('one', answering)).toMatchObject({
    reason: 'lost',
    message: 'the guest threads of namespace one are full',
  });
  const waits = run('one', answering);
  await end();
  expect(await waits).toMatchObject({ reason: 'exit', exitCode: 7 });
});
