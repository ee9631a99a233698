import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

const program = fileURLToPath(new URL('./machine-pace-thread.ts', import.meta.url));

export interface Pace {
  readonly p99Ms: number;
  readonly worstMs: number;
}

/**
 * How fast this machine is just now, whatever the host's thread does: another thread asks another process for an echo,
 * again and again. Who measures a wait on a busy machine takes off what the machine itself needed.
 */
export class MachinePace {
  readonly #thread: Worker;

  private constructor(thread: Worker) {
    this.#thread = thread;
  }

  static async start(): Promise<MachinePace> {
    const thread = new Worker(program);
    await once(thread, 'message');
    return new MachinePace(thread);
  }

  async stop(): Promise<Pace> {
    this.#thread.postMessage('stop');
    const [pace] = (await once(this.#thread, 'message')) as [Pace];
    await this.#thread.terminate();
    return pace;
  }
}
