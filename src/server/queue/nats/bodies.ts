import type { JetStreamManager } from '@nats-io/jetstream';
import type { ObjectStore } from '@nats-io/obj';
import { QueueError } from '../run-queue.ts';
import { patiently } from './patience.ts';
import { OBJECTS_BUCKET } from './subjects.ts';

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
