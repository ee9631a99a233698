import { Worker } from 'node:worker_threads';

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const threadUrl = new URL(
  import.meta.url.endsWith('.ts') ? './preemption-clock-thread.ts' : './turn-clock.cjs',
  import.meta.url,
);

/** Tells the threads that guests share when a guest's time is up. One for all of them. */
export class PreemptionClock {
  #worker: Worker | null = null;
  #next = 1;

  /** Until what this gives is called. `words`: shared with that thread. */
  watch(words: Int32Array): () => void {
    this.#worker ??= this.#start();
    const thread = this.#next++;
    this.#worker.postMessage([thread, words]);
    return () => this.#worker?.postMessage([thread, null]);
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
    this.#worker = null;
  }

  /** It keeps no process alive: where nobody waits for a guest, nobody needs it. */
  #start(): Worker {
    const worker = new Worker(threadUrl, { env: {}, execArgv: [], name: 'spear-turns' });
    worker.on('error', () => {}); // the heartbeat ends whoever then holds a thread
    worker.unref();
    return worker;
  }
}
