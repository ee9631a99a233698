import type { Approval } from '../server/records/approval.ts';
import type { McpProfile } from '../server/records/profile.ts';
import type { StoreStamps } from '../server/records/record-kind.ts';
import type { StopRecord } from '../server/records/stop.ts';
import type { TokenRecord } from '../server/records/token.ts';
import { StoreError, type StoreReader } from '../server/store/store.ts';
import { History } from './history.ts';
import { LiveTopics } from './live-topics.ts';
import type { NodeReports } from './node-reports.ts';
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

/** What a console is told beyond what the stores hold: what changed lately, and how the last hour was. */
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
