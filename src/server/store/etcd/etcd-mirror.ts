import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../../base/errors.ts';
import { backoffMs } from '../../../base/timing.ts';
import { type Event, Event_EventType as EventType } from '../../../generated/proto/etcdserverpb/key_value_pb.ts';
import type { EtcdClient } from './etcd-client.ts';
import { type EtcdKeys, type KindName, range, rangeAll, rangeOf, readEpoch, textOf } from './etcd-keys.ts';
import { firstSpace, type KindListing, type KindMirror } from './kind-mirror.ts';

/** Interval of quorum reads that confirm the mirror. */
const CONFIRM_MS = 1_000;
/** A mirror that was not confirmed for longer is not current. */
const CURRENT_MS = 5_000;
/** Deadline for the watch to deliver what a quorum read has seen. */
const CATCH_UP_MS = 3_000;
const ANSWER_MS = 3_000;
const backoff = { firstMs: 20, maxMs: 1_000 };

export interface EtcdMirrorOptions {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
  readonly epoch: string;
  readonly log: (problem: string) => void;
}

/** The mirror of any kind, without access to records. */
export type AnyKindMirror = Pick<
  KindMirror<never>,
  'head' | 'space' | 'step' | 'replace' | 'reached' | 'close' | 'revisionOf'
> & { readonly kind: { readonly name: KindName } };

/**
 * Mirrors every kind from etcd: listed once, then followed by one watch on any member. A quorum read every second confirms that
 * nothing is missing; without it the mirror is not current.
 */
export class EtcdMirror {
  readonly #options: EtcdMirrorOptions;
  readonly #kinds = new Map<string, AnyKindMirror>();
  readonly #ended = new AbortController();
  #stream: AbortController | null = null;
  /** The mirror has everything up to this revision of etcd. */
  #position: bigint;
  #needsList = false;
  #confirmedAt = performance.now();
  #lastProblem: string | null = null;
  /** A permanent problem. */
  #broken: string | null = null;
  #alarm: string | null = null;
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: EtcdMirrorOptions, kinds: readonly AnyKindMirror[], position: bigint) {
    this.#options = options;
    this.#position = position;
    for (const kind of kinds) this.#kinds.set(kind.kind.name, kind);
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  start(): void {
    this.#running = Promise.all([this.#follow(), this.#confirmAlways()]);
  }

  /** Why this may not be what etcd has; null: it is. */
  problem(): string | null {
    if (this.#broken !== null) return this.#broken;
    const age = performance.now() - this.#confirmedAt;
    if (age <= CURRENT_MS) return null;
    const why = this.#lastProblem === null ? '' : ` (${this.#lastProblem})`;
    return `no confirmation from etcd for ${Math.round(age / 1_000)} s${why}`;
  }

  /** Why etcd takes no write although it can be read; null: it takes them. */
  get alarm(): string | null {
    return this.#alarm;
  }

  async close(): Promise<void> {
    this.#ended.abort();
    for (const kind of this.#kinds.values()) kind.close();
    await this.#running;
  }

  async #follow(): Promise<void> {
    const { signal } = this.#ended;
    for (let failures = 0; !signal.aborted && this.#broken === null; ) {
      const stream = new AbortController();
      this.#stream = stream;
      try {
        if (this.#needsList) await this.#listAgain();
        const { key, rangeEnd } = this.#options.keys.all();
        const both = AbortSignal.any([stream.signal, signal]);
        for await (const { canceled, compactRevision, cancelReason, events } of this.#options.client.watch(
          key,
          rangeEnd,
          this.#position + 1n,
          both,
        )) {
          if (compactRevision > 0n) this.#needsList = true;
          if (canceled) throw new Error(`etcd ended the watch: ${cancelReason || `compacted at ${compactRevision}`}`);
          failures = 0;
          await this.#take(events);
        }
      } catch (error) {
        if (signal.aborted) return;
        failures++;
        this.#lastProblem = errorText(error);
      } finally {
        stream.abort();
      }
      await pause(backoffMs(backoff, Math.max(1, failures), Math), signal);
    }
  }

  /** etcd sends complete revisions in order. */
  async #take(events: readonly Event[]): Promise<void> {
    for (let start = 0; start < events.length; ) {
      const revision = events[start]?.kv?.modRevision ?? 0n;
      let end = start;
      while (end < events.length && events[end]?.kv?.modRevision === revision) end++;
      if (revision > this.#position) await this.#takeRevision(revision, events.slice(start, end));
      start = end;
    }
  }

  async #takeRevision(revision: bigint, events: readonly Event[]): Promise<void> {
    const { keys } = this.#options;
    const read = events.flatMap(({ type, kv }) =>
      kv === undefined ? [] : [{ meaning: keys.meaning(kv.key), value: type === EventType.PUT ? kv.value : null }],
    );
    for (const { meaning, value } of read) {
      const mirror = meaning.what === 'head' ? this.#kinds.get(meaning.kind) : undefined;
      if (mirror === undefined || value === null) continue;
      const write = textOf(value);
      const moved = read.find((other) => other.meaning.what === 'space' && other.meaning.kind === mirror.kind.name);
      if (moved?.value) {
        const space = { name: textOf(moved.value), revision };
        await mirror.replace(
          await listKind(this.#options, mirror.kind.name, { head: revision, write, space }, revision),
        );
        continue;
      }
      const records = read.flatMap(({ meaning: about, value: record }) =>
        about.what === 'record' && about.kind === mirror.kind.name && about.space === mirror.space.name
          ? [{ id: about.id, value: record }]
          : [],
      );
      mirror.step({ head: revision, write, records });
    }
    this.#position = revision;
  }

  /** Lists again and applies the differences. */
  async #listAgain(): Promise<void> {
    const known = this.#heads();
    const { revision, kinds } = await listKinds(this.#options, [...this.#kinds.keys()] as KindName[]);
    for (const [name, listing] of kinds) {
      const mirror = this.#kinds.get(name);
      if (mirror === undefined || this.#wentBack(name, known, listing.head)) continue;
      if (listing.head > mirror.head) await mirror.replace(listing);
    }
    if (revision > this.#position) this.#position = revision;
    this.#needsList = false;
  }

  async #confirmAlways(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted && this.#broken === null) {
      await this.#confirm().catch((error: unknown) => {
        this.#lastProblem = errorText(error);
      });
      // Failures of this call are detected by the confirmation.
      await this.#readAlarm().catch(() => {});
      await pause(CONFIRM_MS, signal);
    }
    if (this.#broken !== null) this.#options.log(this.#broken);
  }

  /** An etcd over its quota answers quorum reads and rejects every write. */
  async #readAlarm(): Promise<void> {
    const { client } = this.#options;
    const { errors } = await client.ask(({ maintenance }, options) => maintenance.status({}, options), {
      deadlineMs: ANSWER_MS,
      signal: this.#ended.signal,
    });
    this.#alarm = errors.some((error) => error.includes('NOSPACE'))
      ? 'etcd is over its quota (alarm NOSPACE): compact and defragment it or raise --quota-backend-bytes, then run etcdctl alarm disarm'
      : null;
  }

  async #confirm(): Promise<void> {
    const { client, keys, epoch } = this.#options;
    const askedAt = performance.now();
    const known = this.#heads();
    const request = { success: [range(keys.epoch()), rangeAll(keys.heads())] };
    const answer = await client.ask(({ kv }, options) => kv.txn(request, options), {
      deadlineMs: ANSWER_MS,
      signal: this.#ended.signal,
    });
    const [own] = rangeOf(answer.responses[0]);
    if (readEpoch(own?.value, answer.header)?.epoch !== epoch) {
      this.#broken = 'etcd holds a different registry than at startup: restart this process';
      return;
    }
    for (const { key, modRevision } of rangeOf(answer.responses[1])) {
      const meaning = keys.meaning(key);
      const mirror = meaning.what === 'head' ? this.#kinds.get(meaning.kind) : undefined;
      if (mirror === undefined) continue;
      if (this.#wentBack(mirror.kind.name, known, modRevision)) return;
      if (await mirror.reached(modRevision, CATCH_UP_MS, this.#ended.signal)) continue;
      this.#lastProblem = `the watch has not delivered revision ${modRevision} of ${mirror.kind.name}`;
      this.#needsList = true;
      this.#stream?.abort();
      return;
    }
    // Every change writes the head of its kind, and all heads have been reached.
    const at = answer.header?.revision ?? 0n;
    if (at > this.#position) this.#position = at;
    this.#confirmedAt = askedAt;
    this.#lastProblem = null;
  }
  /** The heads before a read, whose result must not be older. */
  #heads(): ReadonlyMap<string, bigint> {
    return new Map([...this.#kinds].map(([name, { head }]) => [name, head]));
  }

  /** Watchers ahead of a lower revision would miss its changes, so the mirror stops. */
  #wentBack(kind: string, known: ReadonlyMap<string, bigint>, head: bigint): boolean {
    const before = known.get(kind) ?? 0n;
    if (head >= before) return false;
    this.#broken =
      `the revision of ${kind} in etcd went back from ${before} to ${head}: etcd was restored as the same cluster; ` +
      'restore it as a new cluster, or bump its revision';
    return true;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal }).catch(() => {});
}

const LIST_MS = 30_000;

interface Etcd {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
}

export interface EtcdListing {
  /** The revision of etcd that the listing includes. */
  readonly revision: bigint;
  readonly kinds: ReadonlyMap<string, KindListing>;
}

/** All records of these kinds at one revision. */
export async function listKinds(etcd: Etcd, names: readonly KindName[]): Promise<EtcdListing> {
  const { client, keys } = etcd;
  const request = { success: [rangeAll(keys.heads()), rangeAll(keys.spaces())] };
  const { header, responses } = await client.ask(({ kv }, options) => kv.txn(request, options), {
    deadlineMs: LIST_MS,
  });
  const revision = header?.revision ?? 0n;
  const found = [...rangeOf(responses[0]), ...rangeOf(responses[1])].map((kv) => ({
    meaning: keys.meaning(kv.key),
    kv,
  }));
  const kinds = new Map<string, KindListing>();
  for (const kind of names) {
    const of = (what: 'head' | 'space') =>
      found.find(({ meaning }) => meaning.what === what && meaning.kind === kind)?.kv;
    const [head, space] = [of('head'), of('space')];
    const about = {
      head: head?.modRevision ?? 0n,
      write: head === undefined ? '' : textOf(head.value),
      space: space === undefined ? firstSpace : { name: textOf(space.value), revision: space.modRevision },
    };
    kinds.set(kind, await listKind(etcd, kind, about, revision));
  }
  return { revision, kinds };
}

/** The records of one kind as they were at `revision`. */
export async function listKind(
  { client, keys }: Etcd,
  kind: KindName,
  about: Omit<KindListing, 'records'>,
  revision: bigint,
): Promise<KindListing> {
  const request = { ...keys.records(kind, about.space.name), revision };
  const { kvs } = await client.ask(({ kv }, options) => kv.range(request, options), { deadlineMs: LIST_MS });
  const records = kvs.flatMap((kv) => {
    const meaning = keys.meaning(kv.key);
    return meaning.what === 'record' ? [{ id: meaning.id, kv }] : [];
  });
  return { ...about, records };
}
