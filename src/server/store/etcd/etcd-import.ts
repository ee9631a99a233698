import { randomUUID } from 'node:crypto';
import { errorText } from '../../../base/errors.ts';
import { TimeSlice } from '../../../base/timing.ts';
import { contentKey, type StoreStamps } from '../../records/record-kind.ts';
import { StoreError } from '../store.ts';
import type { EtcdClient } from './etcd-client.ts';
import { bytesOf, drop, dropAll, type EtcdKeys, keyAt, keyPresent, type Operation, put, textOf } from './etcd-keys.ts';

import type { EtcdWriter, Plan, WriteOutcome } from './etcd-writer.ts';
import { type KindMirror, recordText } from './kind-mirror.ts';

const BATCH_OPERATIONS = 100;
const BATCH_BYTES = 512 * 1024;
const BATCH_MS = 10_000;
/** Age after which an unfinished import is removed. */
const ABANDONED_MS = 3_600_000;

/** State shared by all imports. */
export class EtcdImports {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
  readonly writer: EtcdWriter;
  readonly now: () => number;

  constructor(client: EtcdClient, keys: EtcdKeys, writer: EtcdWriter, now: () => number) {
    this.client = client;
    this.keys = keys;
    this.writer = writer;
    this.now = now;
  }

  begin<R extends StoreStamps>(mirror: KindMirror<R>): EtcdImport<R> {
    return new EtcdImport(this, mirror);
  }

  /** Removes the spaces of imports that did not finish. */
  async removeAbandoned(): Promise<void> {
    const range = this.keys.allStaging();
    const { kvs } = await this.client.ask(({ kv }, options) => kv.range(range, options), { deadlineMs: BATCH_MS });
    for (const { key, value } of kvs) {
      const { kind, space } = this.keys.staged(key);
      const age = this.now() - Number(textOf(value));
      if (!(age < ABANDONED_MS)) await this.clear(kind, space);
    }
  }

  /** If this fails, a later import removes the space. */
  async clear(kind: string, space: string): Promise<void> {
    const marker = this.keys.staging(kind, space);
    const request = {
      compare: [keyPresent(marker)],
      success: [dropAll(this.keys.records(kind, space)), drop(marker)],
    };
    await this.client.ask(({ kv }, options) => kv.txn(request, options), { deadlineMs: BATCH_MS }).catch(() => {});
  }
}

/**
 * Writes more changes than one transaction allows, atomically: all records of the kind are staged in a new space, and one write
 * makes it the space of the kind. After a conflict the differences are staged as well, and that write is retried.
 */
export class EtcdImport<R extends StoreStamps> {
  readonly #imports: EtcdImports;
  readonly #mirror: KindMirror<R>;
  readonly #space = randomUUID();
  /** Present while the space is staged: late batches require it, and change nothing without it. */
  readonly #marker: Uint8Array;
  /** The staged texts by id. */
  #texts: ReadonlyMap<string, string> | null = null;

  constructor(imports: EtcdImports, mirror: KindMirror<R>) {
    this.#imports = imports;
    this.#mirror = mirror;
    this.#marker = imports.keys.staging(mirror.kind.name, this.#space);
  }

  async write(planned: Plan<R>): Promise<WriteOutcome> {
    const { keys, writer, now } = this.#imports;
    const { head, space } = this.#mirror;
    const { name } = this.#mirror.kind;
    const unchanged = [keyAt(keys.head(name), head), keyAt(keys.space(name), space.revision)];
    if (planned.refusal !== null || planned.changes.every(({ text }) => text === undefined)) {
      const outcome = await writer.write(this.#mirror, { conditions: unchanged, operations: [] });
      if ('done' in outcome && planned.refusal !== null) throw planned.refusal;
      return outcome;
    }
    try {
      await this.#stage(await this.#wanted(planned));
    } catch (error) {
      throw new StoreError('not_stored', `nothing was changed: ${errorText(error)}`, error);
    }
    const outcome = await writer.write(this.#mirror, {
      conditions: [...unchanged, keyPresent(this.#marker)],
      operations: [
        put(keys.space(name), bytesOf(this.#space)),
        drop(this.#marker),
        // Marks the previous space for removal by any registry.
        put(keys.staging(name, space.name), bytesOf(String(now()))),
      ],
    });
    if ('done' in outcome) await this.#imports.clear(name, space.name);
    return outcome;
  }

  /** Removes the staged space unless it became the kind's. */
  async end(): Promise<void> {
    if (this.#texts !== null) await this.#imports.clear(this.#mirror.kind.name, this.#space);
  }

  /** The texts of all records after the changes. */
  async #wanted({ changes }: Plan<R>): Promise<ReadonlyMap<string, string>> {
    const slice = new TimeSlice();
    const texts = new Map<string, string>();
    const written = new Map(changes.filter(({ text }) => text !== undefined).map(({ id, text }) => [id, text]));
    for (const [id, { record, origin }] of [...this.#mirror.memory.entries()]) {
      if (slice.isOver) await slice.yield();
      if (written.has(id)) continue;
      const { updated_at_ms: updatedAtMs, mod_revision: at } = record;
      texts.set(id, recordText({ content: contentKey(record), origin, updatedAtMs, at }));
    }
    for (const [id, text] of written) if (typeof text === 'string') texts.set(id, text);
    return texts;
  }

  async #stage(wanted: ReadonlyMap<string, string>): Promise<void> {
    const { keys, now } = this.#imports;
    const { name } = this.#mirror.kind;
    const before = this.#texts ?? new Map<string, string>();
    if (this.#texts === null) await this.#put([put(this.#marker, bytesOf(String(now())))], false);
    this.#texts = wanted;
    let batch: Operation[] = [];
    let bytes = 0;
    const add = async (operation: Operation, size: number) => {
      if (batch.length >= BATCH_OPERATIONS || bytes + size > BATCH_BYTES) {
        await this.#put(batch, true);
        batch = [];
        bytes = 0;
      }
      batch.push(operation);
      bytes += size;
    };
    for (const [id, text] of wanted) {
      if (before.get(id) !== text) await add(put(keys.record(name, this.#space, id), bytesOf(text)), text.length);
    }
    for (const id of before.keys()) if (!wanted.has(id)) await add(drop(keys.record(name, this.#space, id)), 0);
    if (batch.length > 0) await this.#put(batch, true);
  }

  async #put(success: Operation[], needsMarker: boolean): Promise<void> {
    const request = { compare: needsMarker ? [keyPresent(this.#marker)] : [], success };
    const { succeeded } = await this.#imports.client.ask(({ kv }, options) => kv.txn(request, options), {
      deadlineMs: BATCH_MS,
    });
    if (!succeeded) throw new Error('the import timed out and was rolled back');
  }
}
