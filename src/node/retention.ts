import { errorText } from '../base/error-text.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import type { RunJournals } from './run-journals.ts';

const EVERY_MS = 10 * 60_000;
const HOUR_MS = 3_600_000;

/** Forgets runs that ended long ago, with their results and journals: now, and from time to time. */
export class Retention {
  readonly #forget: () => Promise<void>;
  readonly #timer: NodeJS.Timeout;
  #last: Promise<void>;

  constructor(queue: RunQueue, journals: RunJournals, hours: number, log: ServiceLog, now: () => number = Date.now) {
    this.#forget = async () => {
      let forgotten = 0;
      try {
        for (;;) {
          const gone = await queue.forget(now() - hours * HOUR_MS);
          for (const { namespace, id } of gone) await journals.remove(namespace, id);
          forgotten += gone.length;
          if (gone.length === 0) break;
        }
        if (forgotten > 0) log('info', 'forgotten', { runs: forgotten });
      } catch (error) {
        log('error', 'not_forgotten', { message: errorText(error) });
      }
    };
    this.#last = this.#forget();
    this.#timer = setInterval(() => {
      this.#last = this.#last.then(this.#forget);
    }, EVERY_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#last;
  }
}
