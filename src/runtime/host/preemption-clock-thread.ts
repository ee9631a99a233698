import { parentPort } from 'node:worker_threads';
import { preemptionWords } from '../port/guest-spec.ts';

// A thread that does nothing but say that time is up: the host's own may be busy when it is.

/** How long a guest computes before others have their turn. */
const TURN_MS = 5;

const watched = new Map<number, Int32Array>();
let timer: NodeJS.Timeout | undefined;

parentPort?.on('message', ([thread, words]: readonly [thread: number, words: Int32Array | null]) => {
  if (words === null) watched.delete(thread);
  else watched.set(thread, words);
  if (watched.size === 0) {
    clearInterval(timer);
    timer = undefined;
  } else timer ??= setInterval(timeIsUp, TURN_MS);
});

function timeIsUp(): void {
  for (const words of watched.values()) Atomics.store(words, preemptionWords.yieldPoints, 1);
}
