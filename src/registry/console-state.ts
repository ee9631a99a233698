import { randomUUID } from 'node:crypto';
import { Listeners } from '../base/listeners.ts';
import type { Approval } from '../server/records/approval.ts';
import type { McpProfile } from '../server/records/profile.ts';
import type { StoreStamps } from '../server/records/record-kind.ts';
import type { StopRecord } from '../server/records/stop.ts';
import type { TokenRecord } from '../server/records/token.ts';
import { StoreError, type StoreReader } from '../server/store/store.ts';
import {
  type HealthCounts,
  type HealthJson,
  type HistoryJson,
  type LiveJson,
  type LiveTopic,
  liveTopics,
} from './console-api.ts';
import type { NodeReports, ServerView } from './node-reports.ts';
import type { RunReports } from './run-reports.ts';

/** A thousand nodes report many times in a second. */
const NODES_PAUSE_MS = 1_000;
const SILENCE_LOOK_MS = 5_000;

export interface FollowedStores {
  readonly servers: StoreReader;
  readonly profiles: StoreReader<McpProfile>;
  readonly approvals: StoreReader<Approval>;
  readonly people: StoreReader<TokenRecord>;
  readonly stops: StoreReader<StopRecord>;
}

/** Console state that the stores do not hold: recent changes, and counts of the last hour. */
export class ConsoleState {
  readonly topics = new LiveTopics();
  readonly history: History;
  readonly #stores: FollowedStores;

  /** Until the signal. */
  constructor(stores: FollowedStores, reports: NodeReports, runs: RunReports, signal: AbortSignal) {
    this.#stores = stores;
    this.history = new History(reports);
    const stopNodes = followReports(reports, () => this.topics.changed('nodes'));
    const stopRuns = runs.onReport(() => this.topics.changed('runs'));
    signal.addEventListener('abort', () => {
      stopNodes();
      stopRuns();
      this.history.close();
    });
    void follow(stores.servers, () => this.topics.changed('servers'), signal);
    void follow(stores.profiles, () => this.topics.changed('profiles'), signal);
    void follow(stores.approvals, () => this.topics.changed('approvals'), signal);
    void follow(stores.people, () => this.topics.changed('people'), signal);
    void follow(stores.stops, () => this.topics.changed('stops'), signal);
  }

  /** Another whenever an answer about servers and nodes would be another. */
  async key(): Promise<string> {
    const { servers, profiles } = this.#stores;
    const revisions = await Promise.all([servers.revision(), profiles.revision()]);
    return [...revisions, this.topics.now().topics.nodes].join('/');
  }
}

/** At once after a report, then at most every so often; also when a node was forgotten for its silence. */
function followReports(reports: NodeReports, changed: () => void): () => void {
  let known = 0;
  let isNews = false;
  const tell = () => {
    isNews = false;
    known = reports.processCount;
    changed();
  };
  let pause: NodeJS.Timeout | null = null;
  const stop = reports.onReport(() => {
    isNews = true;
    if (pause !== null) return;
    tell();
    pause = setTimeout(() => {
      pause = null;
      if (isNews) tell();
    }, NODES_PAUSE_MS).unref();
  });
  const silence = setInterval(() => {
    if (reports.processCount !== known) tell();
  }, SILENCE_LOOK_MS).unref();
  return () => {
    stop();
    clearInterval(silence);
    if (pause !== null) clearTimeout(pause);
  };
}

async function follow<R extends StoreStamps>(store: StoreReader<R>, changed: () => void, signal: AbortSignal) {
  while (!signal.aborted) {
    try {
      for await (const _ of store.watch(await store.revision(), signal)) changed();
      return;
    } catch (error) {
      // Cut off for being slow: something changed, and that is all there is to know.
      if (!(error instanceof StoreError) || error.code === 'closed') return;
      changed();
    }
  }
}

/** Also what has not changed says how old it is. */
const MAX_AGE_MS = 2_000;

/**
 * One answer for all who ask for it while its key stays the same, and for a moment: pages of many people ask at the same
 * time, whenever something changed, and with thousands of nodes an answer takes a while to make.
 */
export function sharedAnswer<T>(keyOf: () => Promise<string>, make: () => Promise<T>): () => Promise<T> {
  let last: { readonly key: string; readonly answer: Promise<T>; readonly atMs: number } | null = null;
  return async () => {
    const key = await keyOf();
    const now = performance.now();
    if (last === null || last.key !== key || now - last.atMs >= MAX_AGE_MS) last = { key, answer: make(), atMs: now };
    return last.answer;
  };
}

/** Counters of changes per topic. They only increase, so a client that missed an event sees the change in the next. */
export class LiveTopics {
  readonly #boot = randomUUID();
  readonly #stamps = new Map<LiveTopic, number>(liveTopics.map((topic) => [topic, 0]));
  readonly #listeners = new Listeners<LiveTopic>();

  changed(topic: LiveTopic): void {
    this.#stamps.set(topic, (this.#stamps.get(topic) ?? 0) + 1);
    this.#listeners.notify(topic);
  }

  /** Returns the way to stop it. */
  onChange(listener: (topic: LiveTopic) => void): () => void {
    return this.#listeners.add(listener);
  }

  now(): LiveJson {
    return { boot: this.#boot, topics: Object.fromEntries(this.#stamps) as Record<LiveTopic, number> };
  }
}

const EVERY_MS = 10_000;
/** One hour. */
const KEPT = 360;

interface Sample {
  readonly atMs: number;
  readonly processes: number;
  readonly connected: number;
  readonly failing: number;
  readonly callsInFlight: number;
  readonly latencyMs: number | null;
}

/** How the nodes were over the last hour, in memory alone. */
export class History {
  readonly #reports: NodeReports;
  readonly #samples: Sample[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(reports: NodeReports) {
    this.#reports = reports;
    this.#timer = setInterval(() => this.#take(), EVERY_MS).unref();
    this.#take();
  }

  /** With how it is now as its last. */
  json(): HistoryJson {
    const samples = [...this.#samples, this.#now()];
    return {
      every_ms: EVERY_MS,
      at_ms: samples.map(({ atMs }) => atMs),
      processes: samples.map(({ processes }) => processes),
      connected: samples.map(({ connected }) => connected),
      failing: samples.map(({ failing }) => failing),
      calls_in_flight: samples.map(({ callsInFlight }) => callsInFlight),
      latency_ms: samples.map(({ latencyMs }) => latencyMs),
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #take(): void {
    this.#samples.push(this.#now());
    if (this.#samples.length > KEPT) this.#samples.shift();
  }

  #now(): Sample {
    const nodes = this.#reports.nodes();
    const servers = [...this.#reports.byServer().values()];
    const worst = servers.map((views) => worstHealth(healthCounts(views)));
    return {
      atMs: Date.now(),
      processes: nodes.length,
      connected: worst.filter((health) => health === 'connected').length,
      failing: worst.filter((health) => health === 'down' || health === 'degraded').length,
      callsInFlight: nodes.reduce((sum, { load }) => sum + (load?.callsInFlight ?? 0), 0),
      latencyMs: meanLatencyMs(nodes.flatMap((node) => node.servers)),
    };
  }
}

const worstFirst: readonly HealthJson[] = ['down', 'degraded', 'connected', 'idle'];

export function healthCounts(views: readonly Pick<ServerView, 'health'>[]): HealthCounts {
  const counts = { idle: 0, connected: 0, degraded: 0, down: 0 };
  for (const { health } of views) counts[health] += 1;
  return counts;
}

/** Null: no node has reported the health of the server. */
export function worstHealth(counts: HealthCounts): HealthJson | null {
  return worstFirst.find((health) => counts[health] > 0) ?? null;
}

export function meanLatencyMs(views: readonly Pick<ServerView, 'latencyMs'>[]): number | null {
  const known = views.flatMap(({ latencyMs }) => latencyMs ?? []);
  return known.length === 0 ? null : known.reduce((sum, ms) => sum + ms, 0) / known.length;
}
