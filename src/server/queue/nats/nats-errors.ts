import { setTimeout as delay } from 'node:timers/promises';
import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import { PermissionViolationError, RequestError } from '@nats-io/transport-node';
import { errorText } from '../../../base/errors.ts';
import { QueueError } from '../run-queue.ts';

/** Pause between two attempts: a lost leader is replaced within seconds, and until then requests fail at once. */
const PAUSE_MS = 100;
const UNAVAILABLE = 503;
const STORE_FAILED = 10077;
const NO_PEERS = 10005;
/** Account limits, insufficient resources, memory or storage of the servers, and a stream that cannot be written. */
const OUT_OF_STORAGE: ReadonlySet<number> = new Set([10002, 10023, 10028, 10047, STORE_FAILED]);

/** Another writer appended to the subject first. */
export function isWrongSequence(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError &&
    (error.code === JetStreamApiCodes.StreamWrongLastSequence ||
      error.code === JetStreamApiCodes.StreamWrongLastSequenceUnknown)
  );
}

/** The NATS user lacks the permission. */
export function isForbidden(error: unknown): error is RequestError {
  return error instanceof RequestError && error.cause instanceof PermissionViolationError;
}

/** Whether a retry may succeed: no leader, no connection, no answer, a server that is starting. */
export function isTransient(error: unknown): boolean {
  if (isForbidden(error)) return false;
  if (!(error instanceof JetStreamApiError)) return true;
  return (error.status === UNAVAILABLE && !isFull(error)) || isPeerOffline(error);
}

/** A stream cannot place its replicas until a server of the cluster is back. NATS reports this with status 400. */
function isPeerOffline(error: JetStreamApiError): boolean {
  return error.code === NO_PEERS && /\boffline\b/.test(error.message);
}

/** The stream reached its limit of messages, in total or for the subject. */
export function isFull(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && error.code === STORE_FAILED && /^maximum messages/.test(error.message);
}

/** The servers, the account or the stream have no storage left. */
export function isOutOfStorage(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && OUT_OF_STORAGE.has(error.code);
}

/** Retries transient errors until `ms` have passed. `work` must be idempotent. @throws QueueError, or the permanent error of the server */
export async function retryTransient<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const until = performance.now() + ms;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof QueueError || !isTransient(error)) throw error;
      if (performance.now() + PAUSE_MS > until) {
        throw new QueueError('unavailable', `no response from NATS for ${ms} ms: ${errorText(error)}`);
      }
      await delay(PAUSE_MS);
    }
  }
}

/** Settles as `work` does, or rejects with `late()` after `ms`. */
export function withDeadline<T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(late()), ms);
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}

/** Permanent setup error: the servers reject the configuration, or are not configured as the queue requires. */
export class NatsSetupError extends QueueError {
  constructor(message: string) {
    super('not_stored', message);
    this.name = 'NatsSetupError';
  }
}
