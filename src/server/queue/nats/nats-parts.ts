import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { Objm } from '@nats-io/obj';
import { type NatsConnection, nanos } from '@nats-io/transport-node';
import { Bodies } from './bodies.ts';
import { NatsSetupError } from './nats-setup-error.ts';
import { patiently } from './patience.ts';
import { REMOVAL_TOLD_MS } from './run-entries.ts';
import { beingMade, prepareStreams, type StreamBounds } from './streams.ts';
import { OBJECTS_BUCKET, RUNS_BUCKET } from './subjects.ts';

/**
 * Of nodes that make the same at the same moment some are not answered: then they look again, sooner than the client
 * would.
 */
const MAKING_MS = 1_000;

/** What everything about runs in NATS is made with. */
export interface NatsParts {
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  readonly bodies: Bodies;
  /** How long the servers may be out of reach before something is given up. */
  readonly patienceMs: number;
}

export interface OpenParts {
  readonly parts: NatsParts;
  readonly kv: KV;
}

/** Makes the streams and buckets that are not there. @throws Error where one is not as it must be */
export async function openParts(nc: NatsConnection, bounds: StreamBounds, patienceMs: number): Promise<OpenParts> {
  const { replicas } = bounds;
  // Entries are read from the leader alone: what a copy has may be old.
  const runs = { replicas, history: 1, allow_direct: false, markerTTL: REMOVAL_TOLD_MS };
  const openBuckets = async (js: JetStreamClient) => ({
    kv: await new Kvm(js).create(RUNS_BUCKET, runs).catch(beingMade(RUNS_BUCKET)),
    objects: await new Objm(js).create(OBJECTS_BUCKET, { replicas }).catch(beingMade(OBJECTS_BUCKET)),
  });
  return patiently(patienceMs, async () => {
    const jsm = await jetstreamManager(nc).catch(explain);
    const brief = { timeout: MAKING_MS };
    await prepareStreams(await jetstreamManager(nc, brief), bounds);
    await openBuckets(jetstream(nc, brief));
    const js = jetstream(nc);
    const { kv, objects } = await openBuckets(js);
    await allowTtl(kv, jsm).catch(beingMade(RUNS_BUCKET));
    return { parts: { js, jsm, bodies: new Bodies(objects, jsm, patienceMs), patienceMs }, kv };
  });
}

/** A bucket that was made before removals had an end. */
async function allowTtl(kv: KV, jsm: JetStreamManager): Promise<void> {
  const { config } = (await kv.status()).streamInfo;
  if (config.allow_msg_ttl) return;
  const ttl = { allow_msg_ttl: true, subject_delete_marker_ttl: nanos(REMOVAL_TOLD_MS) };
  await jsm.streams.update(config.name, ttl);
}

function explain(error: unknown): never {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof JetStreamApiError && cause.code === JetStreamApiCodes.JetStreamNotEnabledForAccount) {
    throw new NatsSetupError(
      'JetStream is not enabled for the NATS account: enable it, or set nats.creds for another account',
    );
  }
  throw error;
}
