import { Worker } from 'node:worker_threads';

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const threadUrl = new URL(
  import.meta.url.endsWith('.ts') ? './preemption-clock-thread.ts' : './turn-clock.cjs',
  import.meta.url,
);

/** One thread that requests a yield on all watched guest threads at a fixed interval. */
export class PreemptionClock {
  #worker: Worker | null = null;
  #next = 1;

  /** Watches a guest thread until the returned function is called. `words`: its preemption words. */
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

  /** Does not keep the process alive. */
  #start(): Worker {
    const worker = new Worker(threadUrl, { env: {}, execArgv: [], name: 'spear-turns' });
    worker.on('error', () => {}); // without the clock, the heartbeat still terminates threads that a guest blocks
    worker.unref();
    return worker;
  }
}
