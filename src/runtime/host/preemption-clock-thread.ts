import { parentPort } from 'node:worker_threads';
import { preemptionWords } from '../port/guest-spec.ts';

// Thread of the preemption clock: the host's own thread may be busy when a time slice ends.

/** Time slice of a guest. */
const SLICE_MS = 5;

const watched = new Map<number, Int32Array>();
let timer: NodeJS.Timeout | undefined;

parentPort?.on('message', ([thread, words]: readonly [thread: number, words: Int32Array | null]) => {
  if (words === null) watched.delete(thread);
  else watched.set(thread, words);
  if (watched.size === 0) {
    clearInterval(timer);
    timer = undefined;
  } else timer ??= setInterval(requestYields, SLICE_MS);
});

function requestYields(): void {
  for (const words of watched.values()) Atomics.store(words, preemptionWords.yieldRequested, 1);
}
