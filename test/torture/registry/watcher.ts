import { Code, ConnectError } from '@connectrpc/connect';
import type { McpRegistryEvent } from '../../../src/generated/proto/sms/mcp_registry_pb.ts';
import type { Failures } from '../topic.ts';
import type { Ledger, ListedServer } from './ledger.ts';
import { connectTo, type SmsClient } from './sms-client.ts';
import type { SmsLives } from './sms-life.ts';

export interface WatcherOptions {
  readonly name: string;
  readonly lives: SmsLives;
  readonly token: string;
  readonly ledger: Ledger;
  readonly failures: Failures;
}

/** Between two attempts while the process is there and the stream is not. */
const AGAIN_MS = 20;

/** Lists once in its life. From there on every change must come by the stream, also by those after a restart. */
export class Watcher {
  readonly #options: WatcherOptions;
  readonly #servers = new Map<string, ListedServer>();
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #epoch: string | null = null;
  #revision = 0;
  #onStep = () => {};
  /** Changes that did not come, or came twice. */
  wrong = 0;
  events = 0;

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Whether it knows everything up to that revision before the deadline. */
  async reaches(revision: number, deadlineMs: number): Promise<boolean> {
    const late = AbortSignal.timeout(deadlineMs);
    while (this.#revision < revision && !late.aborted) {
      await new Promise<void>((resolve) => {
        this.#onStep = resolve;
        late.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    return this.#revision >= revision;
  }

  servers(): ListedServer[] {
    return [...this.#servers.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { lives, token } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const addresses = await Promise.race([lives.serving(), aborted(signal)]);
      if (addresses === null) return;
      const client = connectTo(addresses, token);
      const pid = lives.pid;
      try {
        if (this.#epoch === null) await this.#list(client);
        await this.#follow(client, signal);
        throw new Error('the stream ended');
      } catch (error) {
        if (signal.aborted) return;
        const served = await Promise.race([lives.serving(), Promise.resolve(null)]);
        // Only the end of the process is a reason for the end of a stream.
        if (served !== null && lives.pid === pid && !(await this.#endsSoon(pid)))
          this.#fault(`the watch ended: ${error}`);
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        if (error instanceof ConnectError && error.code === Code.FailedPrecondition) this.#epoch = null;
      } finally {
        client.close();
      }
    }
  }

  /** The stream may break a moment before the word of the process's end is here. */
  async #endsSoon(pid: number): Promise<boolean> {
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    try {
      return this.#options.lives.pid !== pid;
    } catch {
      return true;
    }
  }

  async #list(client: SmsClient): Promise<void> {
    const { epoch, revision, servers } = await client.list();
    this.#epoch = epoch;
    this.#servers.clear();
    for (const server of servers) this.#servers.set(server.id, server);
    this.#reach(revision);
  }

  async #follow({ registry }: SmsClient, signal: AbortSignal): Promise<void> {
    const request = { sinceRevision: BigInt(this.#revision), includeRecords: true };
    for await (const { event } of registry.watchMcpServers(request, { signal })) {
      if (event === undefined) this.#fault('an answer without an event');
      else if (event.heartbeat) this.#heartbeat(event);
      else this.#take(event);
    }
  }

  #heartbeat({ epoch, revision }: McpRegistryEvent): void {
    if (epoch !== this.#epoch) this.#fault(`another epoch: ${epoch}`);
    if (Number(revision) !== this.#revision) this.#fault(`a heartbeat at ${revision}, and I am at ${this.#revision}`);
  }

  #take(event: McpRegistryEvent): void {
    this.events++;
    const [revision, previous] = [Number(event.revision), Number(event.prevRevision)];
    if (event.epoch !== this.#epoch) this.#fault(`another epoch: ${event.epoch}`);
    if (previous !== this.#revision)
      this.#fault(`an event that continues from ${previous}, and I am at ${this.#revision}`);
    if (revision <= this.#revision) this.#fault(`revision ${revision} again, and I am at ${this.#revision}`);
    if (event.records.length !== event.upserts.length)
      this.#fault(`${event.upserts.length} ids, ${event.records.length} records`);
    for (const { serverId: id, displayName: value, modRevision } of event.records) {
      const itsRevision = Number(modRevision);
      if (itsRevision <= this.#revision || itsRevision > revision) {
        this.#fault(`${id} of revision ${itsRevision} in the event from ${previous} to ${revision}`);
      }
      this.#options.ledger.saw(itsRevision, `${id} ${value}`);
      this.#servers.set(id, { id, value, revision: itsRevision });
    }
    for (const id of event.deletes) this.#servers.delete(id);
    this.#reach(revision);
  }

  #reach(revision: number): void {
    this.#revision = revision;
    this.#onStep();
  }

  #fault(text: string): void {
    this.wrong++;
    this.#options.failures.add(`${this.#options.name}: ${text}`);
  }
}

function aborted(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    signal.addEventListener('abort', () => resolve(null), { once: true });
  });
}
