import { setTimeout as sleep } from 'node:timers/promises';
import type { McpPool } from '../../../src/agent/mcp/client/pool.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { ended } from '../../agent/mcp/client/ended-call.ts';

const PAUSE_MS = 5;
const START_MS = 30_000;

/** Of 100 calls, what 99 took at most: on the clock, and of the host thread's own processor time meanwhile. */
export interface HonestPace {
  readonly clockMs: number;
  readonly processorMs: number;
}

/** Calls an honest server again and again beside the others, and looks at its answers and how long they take. */
export class HonestCalls {
  readonly #clock: number[] = [];
  readonly #processor: number[] = [];
  readonly #wrong: string[] = [];
  #isOver = false;
  readonly #ended: Promise<void>;

  private constructor(pool: McpPool, record: McpServerRecord) {
    this.#ended = this.#run(pool, record);
  }

  /** Begins when the server is there and has answered once: what a start takes is another matter. */
  static async start(pool: McpPool, record: McpServerRecord): Promise<HonestCalls> {
    await import('undici');
    const end = performance.now() + START_MS;
    for (;;) {
      const { json, error } = await ended(pool, record, { tool: 'echo', args: { message: '' }, owner: 'honest' });
      if (error === null) return new HonestCalls(pool, record);
      if (performance.now() > end) throw new Error(`the honest server does not start: ${json}`);
    }
  }

  get count(): number {
    return this.#clock.length;
  }

  /** Calls that failed, or were answered with something else. */
  get wrong(): readonly string[] {
    return this.#wrong;
  }

  p99(): HonestPace {
    return { clockMs: p99Of(this.#clock), processorMs: p99Of(this.#processor) };
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }

  async #run(pool: McpPool, record: McpServerRecord): Promise<void> {
    for (let index = 0; !this.#isOver; index++) {
      const message = `honest ${index}`;
      const [started, used] = [performance.now(), process.threadCpuUsage()];
      const { json } = await ended(pool, record, { tool: 'echo', args: { message }, owner: 'honest' });
      this.#clock.push(performance.now() - started);
      const { user, system } = process.threadCpuUsage(used);
      this.#processor.push((user + system) / 1000);
      if (JSON.parse(json).content?.[0]?.text !== message)
        this.#wrong.push(`call ${index} was answered with ${json.slice(0, 200)}`);
      await sleep(PAUSE_MS);
    }
  }
}

function p99Of(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0;
}
