import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { OpenAiBackend } from '../../src/agent/chat/backends/openai.ts';
import { compiledBackend, completionBody, ProviderServer, sendJson } from '../agent/chat/backends/provider-server.ts';
import { inventory } from '../support/inventory.ts';
import { type FixtureOptions, runFixture } from '../support/run-fixture.ts';
import { until } from '../support/until.ts';

const RUNS = 100;
const noProxy = { http: undefined, https: undefined, noProxy: '' };

it(`${RUNS} runs in a row leave no thread, timer, socket, file or listener behind`, {
  timeout: 180_000,
}, async () => {
  const provider = await ProviderServer.start((response) => sendJson(response, 200, completionBody()));
  const controller = new AbortController();
  const kinds: readonly [guest: string, options: () => FixtureOptions, reason: string][] = [
    ['c/hello.wasm', () => ({}), 'exit'],
    [
      'c/chat.wasm',
      () => ({ backend: new OpenAiBackend(compiledBackend(provider.baseUrl), { proxy: noProxy, timing: undefined }) }),
      'exit',
    ],
    ['c/epoll.wasm', () => ({ backend: 'scripts/epoll.json' }), 'exit'],
    ['c/test/trap.wasm', () => ({}), 'trap'],
    ['c/test/nested.wasm', () => ({ args: ['exit'], backend: 'scripts/test/nested.json' }), 'exit'],
    [
      'c/test/catch-all.wasm',
      () => ({ args: ['send'], backend: 'scripts/test/slow.json', limits: { timeout_ms: 400 } }),
      'deadline',
    ],
    ['c/test/spin.wasm', () => ({ limits: { timeout_ms: 400 } }), 'deadline'],
    ['c/test/echo-stdin.wasm', () => ({}), 'exit'],
    ['scripts/chat.json', () => ({}), 'module'],
    ['c/test/sleep.wasm', () => ({ args: ['5'] }), 'exit'],
  ];
  const runOne = async (index: number) => {
    const [guest, options, reason] = kinds[index % kinds.length] as (typeof kinds)[number];
    const run = await runFixture(guest, { ...options(), signal: controller.signal });
    expect([guest, run.reason]).toEqual([guest, reason]);
  };

  // The first of each kind loads libraries and fills the pool of threads that file access has.
  for (let index = 0; index < kinds.length; index++) await runOne(index);
  await until(() => provider.openSockets === 0, 'the sockets of the first runs to close');
  const before = inventory();
  for (let index = 0; index < RUNS; index++) await runOne(index);
  await until(() => JSON.stringify(inventory()) === JSON.stringify(before), 'everything to be gone').catch(() => {});
  expect(inventory()).toEqual(before);
  expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  expect(provider.openSockets).toBe(0);
  await provider.stop();
});
