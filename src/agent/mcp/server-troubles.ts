import { cutText } from '../../base/text.ts';
import { MAX_DEGRADED, type RunDegradation } from '../../server/records/run.ts';
import { EVERY_SERVER, type Exclusion } from '../policy/decision.ts';
import { isLoss } from '../policy/effective-set.ts';
import type { ServerStep } from './client/server-entry.ts';

/** Receives which servers a run lacks and which it waits for. */
export interface ServerTroubleListener {
  /**
   * The run does not have the tools of these servers; called with all of them after each new one. The send that found
   * the last one continues when the returned promise resolves: a stored mark is older than what the run did without it.
   */
  readonly onDegraded?: ((degraded: readonly RunDegradation[]) => void | Promise<void>) | undefined;
  /** The run waits for servers, in words with the time passed; null: it waits for none. */
  readonly onServerWait?: ((text: string | null) => void) | undefined;
}

/** One more entry represents the rest. */
const MAX_SERVERS = MAX_DEGRADED - 1;
const MAX_REASON_CHARS = 400;
/** Shorter waits are not reported. */
const FIRST_TEXT_MS = 1_000;
/** Report interval: each report is a write to the run queue. */
const NEXT_TEXT_MS = 10_000;

/** Servers that one run lacks or waits for. A server that fails once stays degraded for the run, with its first reason. */
export class ServerTroubles {
  readonly #listener: ServerTroubleListener;
  readonly #degraded = new Map<string, string>();
  readonly #waits = new Set<{ readonly server: string; readonly step: () => ServerStep | null }>();
  readonly #now: () => number;
  #stored: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #isShown = false;

  constructor(listener: ServerTroubleListener, now: () => number = () => performance.now()) {
    this.#listener = listener;
    this.#now = now;
  }

  get degraded(): readonly RunDegradation[] {
    return [...this.#degraded].map(([server, reason]) => ({ server, reason }));
  }

  /** Resolves when the listener has stored what is new. */
  async add(found: readonly RunDegradation[]): Promise<void> {
    let isNew = false;
    for (const { server, reason } of found) {
      const isListed = this.#degraded.size < MAX_SERVERS;
      const key = isListed ? server : EVERY_SERVER;
      if (this.#degraded.has(server) || this.#degraded.has(key)) continue;
      const more = `more than ${MAX_SERVERS} servers are missing; the others are not listed`;
      this.#degraded.set(key, isListed ? cutText(reason, MAX_REASON_CHARS) : more);
      isNew = true;
    }
    if (isNew) this.#stored = Promise.resolve(this.#listener.onDegraded?.(this.degraded));
    await this.#stored;
  }

  /** Reports what the run waits for while `work` takes long. `step`: the current step of the server. */
  async during<T>(server: string, step: () => ServerStep | null, work: Promise<T>): Promise<T> {
    const wait = { server, step };
    this.#waits.add(wait);
    this.#showIn(FIRST_TEXT_MS);
    try {
      return await work;
    } finally {
      this.#waits.delete(wait);
      if (this.#waits.size === 0) this.#stop();
    }
  }

  #showIn(ms: number): void {
    if (this.#listener.onServerWait === undefined) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#show();
      this.#showIn(NEXT_TEXT_MS);
    }, ms).unref();
  }

  #show(): void {
    const texts = [...this.#waits].flatMap(({ server, step }) => {
      const now = step();
      return now === null
        ? []
        : [`server ${server}: ${now.what}, ${seconds(this.#now() - now.sinceMs)} s of ${seconds(now.atMostMs)}`];
    });
    if (texts.length === 0) return;
    this.#isShown = true;
    this.#listener.onServerWait?.(texts.join('; '));
  }

  #stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#isShown) this.#listener.onServerWait?.(null);
    this.#isShown = false;
  }
}

const seconds = (ms: number) => Math.max(0, Math.round(ms / 1_000));

/** Exclusions that neither the task nor the guest chose. */
export const lossesOf = (exclusions: readonly Exclusion[]): RunDegradation[] =>
  exclusions.filter(isLoss).map(({ serverId: server, tool, detail }) => ({
    server,
    reason: tool === null ? detail : `tool ${tool}: ${detail}`,
  }));
