import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { type StoredRun, toEntry } from '../../../src/server/queue/nats/run-entries.ts';
import { RUNS_BUCKET, streams } from '../../../src/server/queue/nats/streams.ts';
import { hasEnded } from '../../../src/server/records/run.ts';

/** A message on the subject of a run's journal, as it lies on the servers. */
export interface Written {
  readonly kind: string;
  readonly claim: string;
  readonly ordinal: number;
  readonly attempt: number;
  readonly data: Uint8Array;
}

/** All messages of all journals, by run, in the order in which the servers took them. */
export async function readJournalStreams(nc: NatsConnection): Promise<ReadonlyMap<string, readonly Written[]>> {
  const byRun = new Map<string, Written[]>();
  const jsm = await jetstreamManager(nc);
  if ((await jsm.streams.info(streams.journals)).state.messages === 0) return byRun;
  const consumer = await jetstream(nc).consumers.get(streams.journals);
  for await (const message of await consumer.consume()) {
    const run = message.subject.split('.').at(-1) ?? '';
    const header = (name: string) => message.headers?.get(`Spear-${name}`) ?? '';
    const written = {
      kind: header('Kind'),
      claim: header('Claim'),
      ordinal: Number(header('Ordinal')),
      attempt: Number(header('Attempt')),
      data: message.data,
    };
    byRun.set(run, [...(byRun.get(run) ?? []), written]);
    if (message.info.pending === 0) break;
  }
  return byRun;
}

/**
 * What is wrong with who wrote a journal: after a claim nobody writes but whoever made it, one message after the other,
 * and after the end nobody does.
 */
export function fenceFaults(messages: readonly Written[]): string[] {
  const faults: string[] = [];
  const claims = new Set<string>();
  let owner: string | null = null;
  let last = 0;
  let isOver = false;
  for (const { kind, claim, ordinal } of messages) {
    if (isOver) faults.push(`a "${kind}" stands after its end`);
    if (kind === 'claim') {
      if (claims.has(claim)) faults.push('somebody took it twice by one claim');
      claims.add(claim);
      owner = claim;
      last = 0;
    }
    if (claim !== owner) faults.push(`a "${kind}" was written by one that did not have it any more`);
    else if (ordinal !== ++last) faults.push(`its owner wrote its ${ordinal}. message as the ${last}.`);
    if (kind === 'released' || kind === 'parked') owner = null;
    if (kind === 'finished') isOver = true;
  }
  return faults;
}

/** How often it was taken from somebody who had not given it back. */
export function takenOver(messages: readonly Written[]): number {
  const marks = messages.filter(({ kind }) => kind !== 'block').map(({ kind }) => kind);
  return marks.filter((kind, at) => kind === 'claim' && marks[at - 1] === 'claim').length;
}

/** The entries of runs in the result store, and how often each was given an end. */
export class ResultStore {
  readonly #ends = new Map<string, Set<number>>();
  readonly #nc: NatsConnection;
  #stop = () => {};

  constructor(nc: NatsConnection) {
    this.#nc = nc;
  }

  /** From now on. */
  async follow(): Promise<void> {
    const watch = await (await this.#bucket()).watch();
    this.#stop = () => watch.stop();
    void (async () => {
      for await (const entry of watch) {
        const found = toEntry(entry);
        if (found === null || !hasEnded(found.run.status)) continue;
        const revisions = this.#ends.get(found.run.id) ?? new Set<number>();
        this.#ends.set(found.run.id, revisions.add(entry.revision));
      }
    })();
  }

  /** Entries that were made an ended run's: one is right. */
  ends(run: string): number {
    return this.#ends.get(run)?.size ?? 0;
  }

  get ended(): number {
    return this.#ends.size;
  }

  async read(run: string): Promise<StoredRun | null> {
    const entry = await (await this.#bucket()).get(run);
    return entry === null ? null : toEntry(entry);
  }

  close(): void {
    this.#stop();
  }

  #bucket() {
    return new Kvm(jetstream(this.#nc)).open(RUNS_BUCKET);
  }
}
