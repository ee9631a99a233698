import { expect, it } from 'vitest';
import { ReplayLogWindow } from '../../../src/runtime/guest/shared-buffers.ts';
import { MAX_BUFFERED_POSTS, POST_WINDOW } from '../../../src/runtime/port/guest-spec.ts';

function post(replayLog: ReplayLogWindow, chars: number): void {
  replayLog.waitFor(chars);
  replayLog.add(chars);
}

it('unacknowledged journal events make the guest wait at a yield point until enough are acknowledged', async () => {
  const replayLog = new ReplayLogWindow();
  post(replayLog, POST_WINDOW);
  expect(replayLog.room()).toBeNull();
  post(replayLog, 2);
  const waits = replayLog.room();
  expect(waits).toBeInstanceOf(Promise);
  replayLog.acknowledged(1);
  expect(replayLog.room()).toBe(waits);
  replayLog.acknowledged(1);
  await waits;
  expect(replayLog.room()).toBeNull();
});

it('a guest that cannot be suspended traps before its journal events fill the memory of the host', () => {
  const replayLog = new ReplayLogWindow();
  post(replayLog, POST_WINDOW + MAX_BUFFERED_POSTS);
  expect(() => post(replayLog, 1)).toThrow('faster than its journal is written');
});

it('closing the window releases the waiting guest', async () => {
  const replayLog = new ReplayLogWindow();
  post(replayLog, POST_WINDOW + 1);
  const waits = replayLog.room();
  replayLog.close();
  await waits;
});
