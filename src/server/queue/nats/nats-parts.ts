import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { type ObjectStore, Objm } from '@nats-io/obj';
import { type NatsConnection, nanos } from '@nats-io/transport-node';
import { QueueError } from '../run-queue.ts';
import { NatsSetupError, retryTransient } from './nats-errors.ts';
import {
  MARKER_TTL_MS,
  OBJECTS_BUCKET,
  prepareStreams,
  RUNS_BUCKET,
  retryWhileCreated,
  type StreamBounds,
} from './streams.ts';

/** Request timeout during creation: when nodes create the same stream at once, some get no response and must retry soon. */
const CREATE_TIMEOUT_MS = 1_000;

/** Clients and settings that all parts of the queue share. */
export interface NatsParts {
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  readonly bodies: Bodies;
  /** How long transient errors are retried. */
  readonly patienceMs: number;
}

export interface OpenParts {
  readonly parts: NatsParts;
  readonly kv: KV;
}

/** Creates missing streams and buckets. @throws Error if an existing one is configured differently */
export async function openParts(nc: NatsConnection, bounds: StreamBounds, patienceMs: number): Promise<OpenParts> {
  const { replicas } = bounds;
  // Entries are read from the leader only: a replica may lag.
  const runs = { replicas, history: 1, allow_direct: false, markerTTL: MARKER_TTL_MS };
  const openBuckets = async (js: JetStreamClient) => ({
    kv: await new Kvm(js).create(RUNS_BUCKET, runs).catch(retryWhileCreated(RUNS_BUCKET)),
    objects: await new Objm(js).create(OBJECTS_BUCKET, { replicas }).catch(retryWhileCreated(OBJECTS_BUCKET)),
  });
  return retryTransient(patienceMs, async () => {
    const jsm = await jetstreamManager(nc).catch(explain);
    const brief = { timeout: CREATE_TIMEOUT_MS };
    await prepareStreams(await jetstreamManager(nc, brief), bounds);
    await openBuckets(jetstream(nc, brief));
    const js = jetstream(nc);
    const { kv, objects } = await openBuckets(js);
    await allowTtl(kv, jsm).catch(retryWhileCreated(RUNS_BUCKET));
    return { parts: { js, jsm, bodies: new Bodies(objects, jsm, patienceMs), patienceMs }, kv };
  });
}

/** Upgrades a bucket that an earlier version created without expiring markers. */
async function allowTtl(kv: KV, jsm: JetStreamManager): Promise<void> {
  const { config } = (await kv.status()).streamInfo;
  if (config.allow_msg_ttl) return;
  const ttl = { allow_msg_ttl: true, subject_delete_marker_ttl: nanos(MARKER_TTL_MS) };
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

/** Input or result of a run: inline in its entry if small (every node receives every entry), else an object. */
export type Body = { readonly inline: string } | { readonly object: string };

const MAX_INLINE_BYTES = 16 * 1024;

/** Stores bytes too large for a message as objects, whose names begin with the run. */
export class Bodies {
  readonly #objects: ObjectStore;
  readonly #jsm: JetStreamManager;
  readonly #patienceMs: number;

  constructor(objects: ObjectStore, jsm: JetStreamManager, patienceMs: number) {
    this.#objects = objects;
    this.#jsm = jsm;
    this.#patienceMs = patienceMs;
  }

  /** Whether the bytes are stored as an object. */
  isLarge(bytes: Uint8Array): boolean {
    return bytes.byteLength > MAX_INLINE_BYTES;
  }

  async store(run: string, name: string, bytes: Uint8Array, patienceMs = this.#patienceMs): Promise<Body> {
    if (!this.isLarge(bytes)) return { inline: Buffer.from(bytes).toString('base64') };
    return { object: await this.put(`${run}/${name}`, bytes, patienceMs) };
  }

  async read(body: Body): Promise<Uint8Array> {
    if ('inline' in body) return Buffer.from(body.inline, 'base64');
    return this.get(body.object);
  }

  /** Returns the name. */
  async put(name: string, bytes: Uint8Array, patienceMs = this.#patienceMs): Promise<string> {
    await retryTransient(patienceMs, () => this.#objects.putBlob({ name }, bytes));
    return name;
  }

  async get(name: string): Promise<Uint8Array> {
    const bytes = await retryTransient(this.#patienceMs, () => this.#objects.getBlob(name));
    if (bytes === null) throw new QueueError('not_stored', `the object ${name} no longer exists in NATS`);
    return bytes;
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) {
      await retryTransient(this.#patienceMs, () => this.#objects.delete(name).catch(ignoreNotFound));
      // The object store retains a marker of each deleted object forever.
      const filter = `$O.${OBJECTS_BUCKET}.M.${paddedBase64Url(name)}`;
      await retryTransient(this.#patienceMs, () => this.#jsm.streams.purge(`OBJ_${OBJECTS_BUCKET}`, { filter }));
    }
  }
}

const paddedBase64Url = (text: string) =>
  Buffer.from(text).toString('base64').replaceAll('+', '-').replaceAll('/', '_');

/** The object no longer exists. */
function ignoreNotFound(error: unknown): null {
  if (error instanceof Error && /not found/.test(error.message)) return null;
  throw error;
}
