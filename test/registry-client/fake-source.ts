import type { RegistrySource, RegistryWatchItem } from '../../src/registry-client/source.ts';
import type { RegistryListing } from '../../src/server/records/record-kind.ts';
import type { McpServerRecord } from '../../src/server/records/server.ts';
import { sampleRecord } from '../server/records/server-samples.ts';

type Answer = RegistryListing<McpServerRecord> | Error | 'never';

/** One watch of the fake source, played by the test. */
export class FakeStream implements AsyncIterableIterator<RegistryWatchItem> {
  readonly since: number;
  readonly signal: AbortSignal;
  #waiting: { resolve(result: IteratorResult<RegistryWatchItem>): void; reject(error: Error): void } | null = null;
  #queue: RegistryWatchItem[] = [];
  #end: Error | 'end' | null = null;

  constructor(since: number, signal: AbortSignal) {
    this.since = since;
    this.signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<RegistryWatchItem>> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#deliver();
    });
  }

  send(...items: RegistryWatchItem[]): void {
    this.#queue.push(...items);
    this.#deliver();
  }

  fail(error: Error): void {
    this.#end = error;
    this.#deliver();
  }

  end(): void {
    this.#end = 'end';
    this.#deliver();
  }

  #deliver(): void {
    const waiting = this.#waiting;
    const item = this.#queue[0];
    if (waiting === null || (item === undefined && this.#end === null)) return;
    this.#waiting = null;
    if (item !== undefined) {
      this.#queue.shift();
      waiting.resolve({ done: false, value: item });
    } else if (this.#end === 'end') waiting.resolve({ done: true, value: undefined });
    else if (this.#end !== null) waiting.reject(this.#end);
  }
}

/** A registry that answers exactly what the test tells it to. */
export class FakeSource implements RegistrySource {
  canWatchRecords = true;
  answer: Answer;
  watchError: Error | null = null;
  readonly lists: AbortSignal[] = [];
  readonly streams: FakeStream[] = [];

  constructor(answer: Answer) {
    this.answer = answer;
  }

  list(signal: AbortSignal): Promise<RegistryListing<McpServerRecord>> {
    this.lists.push(signal);
    const { answer } = this;
    if (answer === 'never') return new Promise(() => {});
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }

  watch(since: number, signal: AbortSignal): FakeStream {
    if (this.watchError !== null) throw this.watchError;
    const stream = new FakeStream(since, signal);
    this.streams.push(stream);
    return stream;
  }

  get stream(): FakeStream {
    const last = this.streams.at(-1);
    if (last === undefined) throw new Error('there is no watcher');
    return last;
  }
}

export function listing(
  revision: number,
  servers: (string | McpServerRecord)[] = [],
  epoch = 'e1',
): RegistryListing<McpServerRecord> {
  return {
    epoch,
    revision,
    records: servers.map((server) => (typeof server === 'string' ? sampleRecord(server) : server)),
  };
}

export function event(
  prevRevision: number,
  revision: number,
  changes: { upserts?: McpServerRecord[]; deletes?: string[]; epoch?: string } = {},
): RegistryWatchItem {
  const { upserts = [], deletes = [], epoch = 'e1' } = changes;
  return { epoch, revision, prevRevision, upserts, deletes };
}

export function heartbeat(revision: number, epoch = 'e1'): RegistryWatchItem {
  return { heartbeat: true, epoch, revision };
}
