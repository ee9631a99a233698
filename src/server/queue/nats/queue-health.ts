import { DiscardPolicy, type StreamConfig } from '@nats-io/jetstream';
import { type Msg, type NatsConnection, NoRespondersError, RequestError } from '@nats-io/transport-node';
import { errorText } from '../../../base/errors.ts';
import { HEALTH_SUBJECT, streams } from './streams.ts';

/** Pause between two probes. Together with the timeout, an unreachable queue is detected within five seconds. */
const PAUSE_MS = 1_500;
export const PROBE_MS = 2_500;

/** Probes the queue every few seconds, also while no run is submitted. */
export class QueueHealth {
  readonly #probe: () => Promise<unknown>;
  #timer: NodeJS.Timeout | null = null;
  #problem: string | null = null;
  #isClosed = false;

  constructor(probe: () => Promise<unknown>) {
    this.#probe = probe;
    this.#schedule();
  }

  /** Why the last probe failed; null: it succeeded. */
  get problem(): string | null {
    return this.#problem;
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#run(), PAUSE_MS).unref();
  }

  async #run(): Promise<void> {
    try {
      await this.#probe();
      this.#problem = null;
    } catch (error) {
      this.#problem = errorText(error);
    }
    this.#schedule();
  }
}

/** @throws Error if the response is an error */
export function checkAnswer(answer: Msg): void {
  const { error } = answer.json<{ readonly error?: { readonly description?: string } }>();
  if (error !== undefined) throw new Error(error.description ?? 'the server returned an error');
}

/**
 * Publishes to a stream that exists only for this probe, because NATS with a full disk still answers reads. A stream
 * that failed a write stays read-only until its server restarts; this one is deleted and created again. The stream is
 * created without waiting for "no responders": the other servers believe for minutes that a hung server has it.
 * @throws Error if nothing can be stored
 */
export async function probeStorage(nc: NatsConnection, replicas: number): Promise<void> {
  const request = (subject: string, text: string) => nc.request(subject, text, { timeout: PROBE_MS });
  const create = () => request(`$JS.API.STREAM.CREATE.${streams.health}`, stream(replicas));
  try {
    checkAnswer(await request(HEALTH_SUBJECT, ''));
  } catch (error) {
    if (isUnanswerable(error)) return checkAnswer(await create());
    void request(`$JS.API.STREAM.DELETE.${streams.health}`, '')
      .then(create)
      .catch(() => {});
    const why = errorText(error);
    throw why === 'timeout' ? new Error(`nothing was stored for ${PROBE_MS} ms (its disk may be full)`) : error;
  }
}

/** No stream has the subject: the stream was not created yet, or was removed. */
const isUnanswerable = (error: unknown): boolean =>
  error instanceof RequestError && error.cause instanceof NoRespondersError;

const stream = (replicas: number): string =>
  JSON.stringify({
    ...{ name: streams.health, subjects: [HEALTH_SUBJECT], storage: 'file', num_replicas: replicas },
    ...{ max_msgs: 1, discard: DiscardPolicy.Old, retention: 'limits' },
  } satisfies Partial<StreamConfig>);
