import { setTimeout as delay } from 'node:timers/promises';
import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import { PermissionViolationError, RequestError } from '@nats-io/transport-node';
import { errorText } from '../../../base/error-text.ts';
import { QueueError } from '../run-queue.ts';

/** A leader that is gone is replaced within seconds; until then nobody answers, and at once. */
const PAUSE_MS = 100;
const UNAVAILABLE = 503;
const STORE_FAILED = 10077;
const NO_PEERS = 10005;
/** Limits of the account; insufficient resources; memory or storage of the servers; the stream cannot be written. */
const OUT_OF_STORAGE: ReadonlySet<number> = new Set([10002, 10023, 10028, 10047, STORE_FAILED]);

/** Somebody else has written there since. */
export function isWrongSequence(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError &&
    (error.code === JetStreamApiCodes.StreamWrongLastSequence ||
      error.code === JetStreamApiCodes.StreamWrongLastSequenceUnknown)
  );
}

/** Whoever asked may not ask that. */
export function isForbidden(error: unknown): error is RequestError {
  return error instanceof RequestError && error.cause instanceof PermissionViolationError;
}

/** Whether a retry may succeed: no leader, no connection, no answer, a server that is starting. */
export function isTransient(error: unknown): boolean {
  if (isForbidden(error)) return false;
  if (!(error instanceof JetStreamApiError)) return true;
  return (error.status === UNAVAILABLE && !isFull(error)) || isPeerOffline(error);
}

/** A stream has no place for its replicas until a server of the cluster is back. NATS reports this with status 400. */
function isPeerOffline(error: JetStreamApiError): boolean {
  return error.code === NO_PEERS && /\boffline\b/.test(error.message);
}

/** The stream has as many messages as it may have, in all or of that subject. */
export function isFull(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && error.code === STORE_FAILED && /^maximum messages/.test(error.message);
}

/** The servers, the account or the stream have no room for what is to be stored. */
export function isOutOfStorage(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && OUT_OF_STORAGE.has(error.code);
}

/** Tries until it is answered, or the time is up. `work` may be done twice. @throws QueueError, or what the server says */
export async function patiently<T>(ms: number, work: () => Promise<T>): Promise<T> {
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

/** The servers are there, and refuse what the config says, or are not as runs need them: time does not change that. */
export class NatsSetupError extends QueueError {
  constructor(message: string) {
    super('not_stored', message);
    this.name = 'NatsSetupError';
  }
}
