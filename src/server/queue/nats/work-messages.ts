import type { NatsParts } from './nats-parts.ts';
import { isFull, patiently } from './patience.ts';
import type { RunEntry } from './run-entries.ts';
import type { RunMirror } from './run-mirror.ts';
import { streams, workSubject } from './subjects.ts';

/** A run whose submission was cut off between entry and message is published by whoever notices. */
const SWEEP_MS = 60_000;
const SWEEP_AT_ONCE = 1_000;
const ANSWER_MS = 5_000;

/** The messages by which runs wait: one for each that waits or runs. */
export class WorkMessages {
  readonly #parts: NatsParts;
  readonly #mirror: RunMirror;
  readonly #sweep: NodeJS.Timeout;

  constructor(parts: NatsParts, mirror: RunMirror) {
    this.#parts = parts;
    this.#mirror = mirror;
    this.#sweep = setInterval(() => void this.#publishLost().catch(() => {}), SWEEP_MS).unref();
  }

  /** `there`: it waits already. `entry`: of a new run, so that whoever takes it need not ask for it. */
  async publish(
    namespace: string,
    pool: string,
    id: string,
    entry: RunEntry | null = null,
  ): Promise<'published' | 'there' | 'full'> {
    const { js, patienceMs } = this.#parts;
    const subject = workSubject(namespace, pool, id);
    const message = JSON.stringify(entry === null ? { run: id } : { run: id, entry });
    const options = { timeout: ANSWER_MS, retries: 0 };
    try {
      await patiently(patienceMs, () => js.publish(subject, message, options));
      return 'published';
    } catch (error) {
      if (!isFull(error)) throw error;
      return /per subject/.test(error.message) ? 'there' : 'full';
    }
  }

  close(): void {
    clearInterval(this.#sweep);
  }

  async #publishLost(): Promise<void> {
    const info = await this.#parts.jsm.streams.info(streams.runs);
    if (info.state.messages >= this.#mirror.underway) return;
    const old = this.#mirror.waitingSince(Date.now() - SWEEP_MS).slice(0, SWEEP_AT_ONCE);
    for (const { namespace, pool, id } of old) await this.publish(namespace, pool, id);
  }
}
