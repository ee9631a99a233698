import { setTimeout as pause } from 'node:timers/promises';
import { failoverSource } from '../../../src/registry-client/failover.ts';
import { createRemoteSource, type RemoteSource } from '../../../src/registry-client/remote-source.ts';
import { isHeartbeat } from '../../../src/registry-client/source.ts';
import type { Failures } from '../topic.ts';

const AGAIN_MS = 50;
const LIST_MS = 20_000;

/** A node that follows several registries: by list and watch, on whichever answers. */
export class Follower {
  readonly #name: string;
  readonly #failures: Failures;
  readonly #source: RemoteSource;
  readonly #ended = new AbortController();
  readonly #running: Promise<void>;
  #epoch = '';
  #revision = -1;
  /** id → the revision at which it was told of. */
  readonly seen = new Map<string, number>();
  events = 0;
  lists = 0;
  wrong = 0;

  constructor(name: string, addresses: readonly [string, ...string[]], failures: Failures) {
    this.#name = name;
    this.#failures = failures;
    const [first, ...others] = addresses;
    const remote = (address: string) => createRemoteSource({ address });
    this.#source = failoverSource([remote(first), ...others.map(remote)]);
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#running;
    this.#source.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    for (let needsList = true; !signal.aborted; ) {
      try {
        if (needsList) await this.#list();
        needsList = false;
        await this.#follow();
      } catch {
        // As a node does: where a watch cannot go on, everything is listed.
        needsList = true;
        await pause(AGAIN_MS, undefined, { signal }).catch(() => {});
      }
    }
  }

  async #list(): Promise<void> {
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(LIST_MS)]);
    const { epoch, revision, records } = await this.#source.list(signal);
    if (this.#epoch !== '' && epoch !== this.#epoch) this.#fault(`another epoch: ${epoch}`);
    // One that is behind is asked again.
    if (revision < this.#revision) throw new Error('behind');
    this.lists++;
    this.#epoch = epoch;
    const listed = new Map(records.map((record) => [record.server_id, record.mod_revision]));
    for (const [id, at] of this.seen) if (listed.get(id) !== at) this.#fault(`${id} of ${at} is not in the list`);
    for (const [id, at] of listed) this.seen.set(id, at);
    this.#revision = revision;
  }

  async #follow(): Promise<void> {
    for await (const item of this.#source.watch(this.#revision, this.#ended.signal)) {
      if (item.epoch !== this.#epoch) this.#fault(`another epoch: ${item.epoch}`);
      if (isHeartbeat(item)) {
        if (item.revision !== this.#revision) this.#fault(`a heartbeat at ${item.revision}, I am at ${this.#revision}`);
        continue;
      }
      this.events++;
      if (item.prevRevision !== this.#revision) this.#fault(`from ${item.prevRevision}, I am at ${this.#revision}`);
      if (item.revision <= this.#revision) this.#fault(`revision ${item.revision} again`);
      for (const { server_id: id, mod_revision: at } of item.upserts) {
        if (this.seen.has(id)) this.#fault(`${id} is told of twice: at ${this.seen.get(id)} and ${at}`);
        if (at <= this.#revision || at > item.revision) this.#fault(`${id} of ${at} does not belong to this event`);
        this.seen.set(id, at);
      }
      this.#revision = item.revision;
    }
  }

  #fault(text: string): void {
    this.wrong++;
    this.#failures.add(`${this.#name}: ${text}`);
  }
}
