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
import { NatsSetupError, patiently } from './nats-errors.ts';
import { beingMade, MARKER_TTL_MS, OBJECTS_BUCKET, prepareStreams, RUNS_BUCKET, type StreamBounds } from './streams.ts';

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
  const runs = { replicas, history: 1, allow_direct: false, markerTTL: MARKER_TTL_MS };
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

/** What a run was given or came to: in its entry where it is small, since every node is told of entries. */
export type Body = { readonly inline: string } | { readonly object: string };

const MAX_INLINE_BYTES = 16 * 1024;

/** Bytes that are too many for a message are objects, under a name that begins with their run. */
export class Bodies {
  readonly #objects: ObjectStore;
  readonly #jsm: JetStreamManager;
  readonly #patienceMs: number;

  constructor(objects: ObjectStore, jsm: JetStreamManager, patienceMs: number) {
    this.#objects = objects;
    this.#jsm = jsm;
    this.#patienceMs = patienceMs;
  }

  /** Whether it needs an object of its own. */
  isLarge(bytes: Uint8Array): boolean {
    return bytes.byteLength > MAX_INLINE_BYTES;
  }

  /** `patienceMs`: how long it is tried. */
  async keep(run: string, name: string, bytes: Uint8Array, patienceMs = this.#patienceMs): Promise<Body> {
    if (!this.isLarge(bytes)) return { inline: Buffer.from(bytes).toString('base64') };
    return { object: await this.put(`${run}/${name}`, bytes, patienceMs) };
  }

  async read(body: Body): Promise<Uint8Array> {
    if ('inline' in body) return Buffer.from(body.inline, 'base64');
    return this.get(body.object);
  }

  /** The name. */
  async put(name: string, bytes: Uint8Array, patienceMs = this.#patienceMs): Promise<string> {
    await patiently(patienceMs, () => this.#objects.putBlob({ name }, bytes));
    return name;
  }

  async get(name: string): Promise<Uint8Array> {
    const bytes = await patiently(this.#patienceMs, () => this.#objects.getBlob(name));
    if (bytes === null) throw new QueueError('not_stored', `the object ${name} no longer exists in NATS`);
    return bytes;
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) {
      await patiently(this.#patienceMs, () => this.#objects.delete(name).catch(absent));
      // The store keeps a note of what was deleted, for ever.
      const filter = `$O.${OBJECTS_BUCKET}.M.${paddedBase64Url(name)}`;
      await patiently(this.#patienceMs, () => this.#jsm.streams.purge(`OBJ_${OBJECTS_BUCKET}`, { filter }));
    }
  }
}

const paddedBase64Url = (text: string) =>
  Buffer.from(text).toString('base64').replaceAll('+', '-').replaceAll('/', '_');

/** It is gone already. */
function absent(error: unknown): null {
  if (error instanceof Error && /not found/.test(error.message)) return null;
  throw error;
}
