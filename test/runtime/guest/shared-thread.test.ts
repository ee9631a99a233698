import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { MessageChannel } from 'node:worker_threads';
import { expect, it, onTestFinished } from 'vitest';
import { ThreadPort } from '../../../src/runtime/guest/hostcalls/host-link.ts';
import { SharedThread } from '../../../src/runtime/guest/shared-thread.ts';
import { newCounters } from '../../../src/runtime/host/guest-counters.ts';
import type { SharedGuestTerms } from '../../../src/runtime/port/guest-spec.ts';
import { parseEvents } from '../../../src/runtime/port/journal-events.ts';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { disabledTask } from '../../../src/runtime/port/policy-layers.ts';
import type { HostReply, SharedThreadMessage } from '../../../src/runtime/port/port.ts';
import { until } from '../../support/until.ts';

const THREAD = 0;
const GUEST = 1;
/** Under which the clerk hears who comes and goes: its first. */
const CTL = 1;
const wasm = readFileSync(new URL('../../../fixtures/c/test/clerk.wasm', import.meta.url));

/** A thread that knows the clerk, which has a replayLog; what its guest says, and all that its replayLog has. */
function threadWithClerk() {
  const { port1, port2: host } = new MessageChannel();
  onTestFinished(() => host.close());
  const turns = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  new SharedThread(new ThreadPort(port1), { turns, memoryBytes: 2 ** 32 });
  const said: unknown[] = [];
  let replayLog = '';
  host.on('message', (posted: unknown[]) => {
    const hasEvents = typeof posted[0] === 'string';
    if (hasEvents) replayLog += posted[0];
    const message = (hasEvents ? posted[1] : posted) as unknown[];
    if (message[0] === GUEST) said.push(message[3]);
  });
  const tell = (guest: number, call: number, ...word: SharedThreadMessage | HostReply) =>
    host.postMessage([guest, call, ...word]);
  const terms: SharedGuestTerms = {
    ...{ args: ['clerk'], limits: compileLimits(), mcpTask: disabledTask, servesStreams: true, verbose: false },
  };
  tell(THREAD, 0, 'counters', 0, newCounters(1));
  tell(THREAD, 0, 'terms', 1, terms);
  tell(THREAD, 0, 'module', 1, ['start', { module: new WebAssembly.Module(wasm), unknownImports: [], turns: null }]);
  const open = () => {
    const replayLog = { events: [], continuesLive: true, wakesAtStart: false };
    tell(THREAD, 0, 'open', GUEST, { env: {}, replay: replayLog, recordedValues: null }, 1, 1, 0);
  };
  const places = () => parseEvents(replayLog).map(({ call, step, kind, value }) => `${call}.${step} ${kind}${value}`);
  return { host, tell, open, said, places };
}

it('a guest does not begin amid the messages of its thread: what came with its start is before its first step', async () => {
  const { tell, open, said, places } = threadWithClerk();
  open();
  tell(GUEST, CTL, 'stream_event', 1, 1);
  await until(() => said.filter((word) => word === 'stream_open').length === 1, 'the guest to wait');
  tell(GUEST, CTL, 'stream_event', 1, 1);
  await until(() => said.includes('output'), 'the guest to receive the event of its client');
  expect(places().filter((place) => place.includes(' r'))).toEqual([`0.1 r${CTL}`, `6.3 r${CTL}`]);
});

it('a guest that is ended before it began has done nothing', async () => {
  const { host, tell, open, said } = threadWithClerk();
  await once(host, 'message');
  open();
  tell(GUEST, 0, 'end');
  await until(() => said.length > 0, 'its end');
  expect(said).toEqual(['ended']);
});
