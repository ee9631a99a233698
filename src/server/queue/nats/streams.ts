import {
  AckPolicy,
  type ConsumerConfig,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { QueueError } from '../run-queue.ts';
import { isTransient, NatsSetupError } from './nats-errors.ts';

/** Streams of the queue in a NATS account. */
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

/** How long the bucket of runs retains the marker of a removed entry. A node that misses the marker finds the entry missing. */
export const MARKER_TTL_MS = 3_600_000;

export const HEALTH_SUBJECT = 'spear.health.probe';

const token = /^[A-Za-z0-9_-]{1,128}$/;

/** Checks one token of a subject: a dot or wildcard in it would name another subject. @throws QueueError */
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

/** Null: not the subject of a work message. */
export function parseWork(
  subject: string,
): { readonly namespace: string; readonly pool: string; readonly run: string } | null {
  const [spear, namespace, kind, pool, run, ...more] = subject.split('.');
  if (spear !== 'spear' || kind !== 'run' || more.length > 0) return null;
  return namespace === undefined || pool === undefined || run === undefined ? null : { namespace, pool, run };
}

/** Metadata of a delivered message. */
export interface DeliveryMetadata {
  /** Delivery count, this delivery included. */
  readonly times: number;
  /** Sequence in the stream. */
  readonly sequence: number;
  /** Sequence in the consumer. */
  readonly delivered: number;
}

/** Parses the reply subject: $JS.ACK.STREAM.CONSUMER.TIMES.SEQUENCE.DELIVERED.…, or with domain and account before the stream. */
export function deliveryMetadata(reply: string): DeliveryMetadata {
  const words = reply.split('.');
  const [times, sequence, delivered] = words.slice(words.length > 9 ? 6 : 4).map(Number);
  return { times: times ?? 0, sequence: sequence ?? 0, delivered: delivered ?? 0 };
}

/** The oldest server whose acknowledged writes survive a power failure, and that has counters. */
export const OLDEST_SERVER = [2, 12, 2] as const;

export interface StreamBounds {
  readonly replicas: number;
  /** Maximum of queued and running runs. */
  readonly maxRuns: number;
}

/** Retention of run events. */
const EVENTS_AGE_MS = 24 * 3_600_000;
const MAX_EVENT_MESSAGES = 10_000;
const DEAD_AGE_MS = 90 * 24 * 3_600_000;
const TOKENS_AGE_MS = 3 * 24 * 3_600_000;
const NO_STREAM = 10059;
const NAME_IN_USE = 10058;
const NO_CONSUMER = 10014;

function streamConfigs({ replicas, maxRuns }: StreamBounds): (Partial<StreamConfig> & { readonly name: string })[] {
  const kept = { storage: StorageType.File, num_replicas: replicas };
  return [
    {
      ...kept,
      name: streams.runs,
      subjects: ['spear.*.run.*.*'],
      retention: RetentionPolicy.Workqueue,
      discard: DiscardPolicy.New,
      max_msgs: maxRuns,
      // A run has at most one work message, however often it is published.
      max_msgs_per_subject: 1,
      discard_new_per_subject: true,
    },
    { ...kept, name: streams.journals, subjects: ['spear.*.journal.*'], allow_direct: true },
    {
      ...kept,
      name: streams.events,
      subjects: ['spear.*.out.*'],
      max_msgs_per_subject: MAX_EVENT_MESSAGES,
      max_age: nanos(EVENTS_AGE_MS),
    },
    { ...kept, name: streams.dead, subjects: ['spear.*.dead.*'], max_msgs_per_subject: 1, max_age: nanos(DEAD_AGE_MS) },
    {
      ...kept,
      name: streams.tokens,
      subjects: ['spear.*.tokens.*.*'],
      max_msgs_per_subject: 1,
      max_age: nanos(TOKENS_AGE_MS),
      allow_msg_counter: true,
    } as Partial<StreamConfig> & { readonly name: string },
  ];
}

/** Fields that must match exactly. An operator may have raised the others. */
const checked = [
  'retention',
  'discard',
  'max_msgs_per_subject',
  'discard_new_per_subject',
  'storage',
  'allow_msg_counter',
];

/** Creates missing streams and checks existing ones. @throws NatsSetupError that names stream and field */
export async function prepareStreams(jsm: JetStreamManager, bounds: StreamBounds): Promise<void> {
  for (const config of streamConfigs(bounds)) {
    const { name } = config;
    const read = () => jsm.streams.info(name).catch(nullIf(NO_STREAM));
    const found = await read();
    if (found !== null) checkStream(config, found.config);
    // Another node may have created the stream in the meantime.
    else await jsm.streams.add(config).catch(async (error: unknown) => (await read()) ?? refused(name, error));
  }
}

function refused(name: string, error: unknown): never {
  if (!(error instanceof JetStreamApiError) || isTransient(error)) throw error;
  if (error.code === NAME_IN_USE) return retryWhileCreated(name)(error);
  throw new NatsSetupError(`the stream ${name} cannot be created in NATS: ${error.message}`);
}

/** Makes "not found" and "exists" errors transient, for something that another node creates: servers learn of it one by one. */
export const retryWhileCreated =
  (name: string) =>
  (error: unknown): never => {
    const codes: readonly number[] = [NO_STREAM, NAME_IN_USE, NO_CONSUMER];
    if (!(error instanceof JetStreamApiError) || !codes.includes(error.code)) throw error;
    throw new Error(`${name} is being created by another node (${error.message})`);
  };

function checkStream(wantedConfig: Partial<StreamConfig>, found: StreamConfig): void {
  const { name, subjects } = wantedConfig;
  const wrong = (field: string, is: unknown, expected: unknown) => {
    throw new NatsSetupError(
      `the NATS stream ${name} has ${field} = ${JSON.stringify(is)}; the run queue needs ${JSON.stringify(expected)}: change it with \`nats stream edit ${name}\`, or use a separate account`,
    );
  };
  const missing = (subjects ?? []).find((subject) => !found.subjects.includes(subject));
  if (missing !== undefined) wrong('subjects', found.subjects, subjects);
  for (const field of checked) {
    const expected = (wantedConfig as Record<string, unknown>)[field];
    const is = (found as unknown as Record<string, unknown>)[field];
    if (expected !== undefined && is !== expected) wrong(field, is, expected);
  }
  const replicas = Number(wantedConfig.num_replicas);
  if (found.num_replicas < replicas) wrong('num_replicas', found.num_replicas, replicas);
}

/** Creates or checks the consumer of a pool, from which all its nodes pull. Returns its name. @throws NatsSetupError if its configuration differs */
export async function preparePool(
  jsm: JetStreamManager,
  pool: string,
  { replicas, leaseMs }: { readonly replicas: number; readonly leaseMs: number },
): Promise<string> {
  const name = `pool-${word(pool, 'the pool')}`;
  const config: Partial<ConsumerConfig> = {
    durable_name: name,
    filter_subject: `spear.*.run.${pool}.*`,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(leaseMs),
    max_deliver: -1,
    max_ack_pending: -1,
    num_replicas: replicas,
  };
  const read = () => jsm.consumers.info(streams.runs, name);
  const create = () => jsm.consumers.add(streams.runs, config).catch(read).catch(retryWhileCreated(name));
  const found = (await read().catch(nullIf(NO_CONSUMER))) ?? (await create());
  const { ack_wait, filter_subject } = found.config;
  if (filter_subject !== config.filter_subject || ack_wait !== config.ack_wait) {
    throw new NatsSetupError(
      `the NATS consumer ${name} of ${streams.runs} has ack_wait = ${Number(ack_wait) / 1_000_000} ms and filters ${filter_subject}, but this node has node.lease_ms = ${leaseMs}: all nodes of a pool must use the same value`,
    );
  }
  return name;
}

/** Turns the error with this code into null. */
const nullIf = (code: number) => (error: unknown) => {
  if (error instanceof JetStreamApiError && error.code === code) return null;
  throw error;
};
