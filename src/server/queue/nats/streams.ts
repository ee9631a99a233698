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
import { NatsSetupError } from './nats-setup-error.ts';
import { isTransient } from './patience.ts';
import { streams, word } from './subjects.ts';

/** The oldest server that keeps what it acknowledged when the power fails, and that counts. */
export const OLDEST_SERVER = [2, 12, 2] as const;

export interface StreamBounds {
  readonly replicas: number;
  /** Runs that wait or run. */
  readonly maxRuns: number;
}

/** How long events of a run can be read again. */
const EVENTS_AGE_MS = 24 * 3_600_000;
const MAX_EVENT_MESSAGES = 10_000;
const DEAD_AGE_MS = 90 * 24 * 3_600_000;
const TOKENS_AGE_MS = 3 * 24 * 3_600_000;
const NO_STREAM = 10059;
const NAME_IN_USE = 10058;
const NO_CONSUMER = 10014;

function wanted({ replicas, maxRuns }: StreamBounds): (Partial<StreamConfig> & { readonly name: string })[] {
  const kept = { storage: StorageType.File, num_replicas: replicas };
  return [
    {
      ...kept,
      name: streams.runs,
      subjects: ['spear.*.run.*.*'],
      retention: RetentionPolicy.Workqueue,
      discard: DiscardPolicy.New,
      max_msgs: maxRuns,
      // A run waits once, whoever publishes it again.
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

/** What may not differ from what is wanted: the others may have been widened by whoever runs the servers. */
const checked = [
  'retention',
  'discard',
  'max_msgs_per_subject',
  'discard_new_per_subject',
  'storage',
  'allow_msg_counter',
];

/** Makes the streams that are not there yet, and checks those that are. @throws NatsSetupError that names stream and field */
export async function prepareStreams(jsm: JetStreamManager, bounds: StreamBounds): Promise<void> {
  for (const config of wanted(bounds)) {
    const { name } = config;
    const read = () => jsm.streams.info(name).catch(unless(NO_STREAM));
    const found = await read();
    if (found !== null) checkStream(config, found.config);
    // Another node may make the same at this moment: then it is there.
    else await jsm.streams.add(config).catch(async (error: unknown) => (await read()) ?? refused(name, error));
  }
}

function refused(name: string, error: unknown): never {
  if (!(error instanceof JetStreamApiError) || isTransient(error)) throw error;
  if (error.code === NAME_IN_USE) return beingMade(name)(error);
  throw new NatsSetupError(`the stream ${name} cannot be created in NATS: ${error.message}`);
}

/**
 * Of what is there for sure. One server knows of what was made sooner than another, so that it is not there yet passes,
 * as no answer does.
 */
export const beingMade =
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

/** One consumer a pool: all its nodes pull from it. Returns its name. @throws NatsSetupError where it is another's */
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
  const make = () => jsm.consumers.add(streams.runs, config).catch(read).catch(beingMade(name));
  const found = (await read().catch(unless(NO_CONSUMER))) ?? (await make());
  const { ack_wait, filter_subject } = found.config;
  if (filter_subject !== config.filter_subject || ack_wait !== config.ack_wait) {
    throw new NatsSetupError(
      `the NATS consumer ${name} of ${streams.runs} has ack_wait = ${Number(ack_wait) / 1_000_000} ms and filters ${filter_subject}, but this node has node.lease_ms = ${leaseMs}: all nodes of a pool must use the same value`,
    );
  }
  return name;
}

/** The error of that code is null. */
const unless = (code: number) => (error: unknown) => {
  if (error instanceof JetStreamApiError && error.code === code) return null;
  throw error;
};
