import { QueueError } from '../run-queue.ts';

/** What belongs to the queue in a NATS account. Replicas and bounds of each are in streams.ts. */
export const streams = {
  runs: 'SPEAR_RUNS',
  journals: 'SPEAR_JOURNALS',
  events: 'SPEAR_OUT',
  dead: 'SPEAR_DEAD',
  tokens: 'SPEAR_TOKENS',
  /** One message, written by the readiness probes of nodes. */
  health: 'SPEAR_HEALTH',
} as const;
export const RUNS_BUCKET = 'spear_runs';
export const OBJECTS_BUCKET = 'spear_objects';

export const HEALTH_SUBJECT = 'spear.health.probe';

const token = /^[A-Za-z0-9_-]{1,128}$/;

/** A word of a subject: what has dots or wildcards in it would be another subject. @throws QueueError */
export function word(text: string, what: string): string {
  if (token.test(text)) return text;
  throw new QueueError('not_stored', `${what} ${JSON.stringify(text)}: expected letters, digits, _ and -`);
}

const ofRun = (kind: string) => (namespace: string, run: string) =>
  `spear.${word(namespace, 'the namespace')}.${kind}.${word(run, 'the run')}`;

export const journalSubject = ofRun('journal');
export const eventsSubject = ofRun('out');
export const deadSubject = ofRun('dead');

export const workSubject = (namespace: string, pool: string, run: string) =>
  `spear.${word(namespace, 'the namespace')}.run.${word(pool, 'the pool')}.${word(run, 'the run')}`;

/** Null: it is no such subject. */
export function parseWork(
  subject: string,
): { readonly namespace: string; readonly pool: string; readonly run: string } | null {
  const [spear, namespace, kind, pool, run, ...more] = subject.split('.');
  if (spear !== 'spear' || kind !== 'run' || more.length > 0) return null;
  return namespace === undefined || pool === undefined || run === undefined ? null : { namespace, pool, run };
}

/** Where a message stands that was delivered: how often it was, its sequence in the stream and in its consumer. */
export interface Place {
  readonly times: number;
  readonly sequence: number;
  readonly delivered: number;
}

/** By its reply subject, $JS.ACK.STREAM.CONSUMER.TIMES.SEQUENCE.DELIVERED.…, or with domain and account before the stream. */
export function placeOf(reply: string): Place {
  const words = reply.split('.');
  const [times, sequence, delivered] = words.slice(words.length > 9 ? 6 : 4).map(Number);
  return { times: times ?? 0, sequence: sequence ?? 0, delivered: delivered ?? 0 };
}
