import { type LiveJson, type LiveTopic, liveTopics } from '../registry/console-api.ts';
import { ApiError, authHeaders, signedOut } from './api.ts';

/** Heartbeats come every five seconds: after this silence nobody is there. */
const SILENCE_MS = 15_000;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 8_000;

export type LinkState = 'connecting' | 'live' | 'lost';

/**
 * Which topics changed, told by a stream. `EventSource` cannot send a token, so the stream is read by `fetch`. Numbers
 * of topics are compared with those that were seen last, also after the connection was lost: what changed meanwhile is
 * told then.
 */
export class Live {
  state: LinkState = 'connecting';
  /** When it was lost; null while it is there. */
  lostAtMs: number | null = null;
  #seen: LiveJson | null = null;
  #attempts = 0;
  #stopped = new AbortController();
  readonly #topics = new Map<LiveTopic, Set<() => void>>();
  readonly #states = new Set<() => void>();

  start(): void {
    this.#stopped = new AbortController();
    void this.#run(this.#stopped.signal);
  }

  stop(): void {
    this.#stopped.abort();
    this.#seen = null;
  }

  onTopic(topic: LiveTopic, listener: () => void): () => void {
    const listeners = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  onState(listener: () => void): () => void {
    this.#states.add(listener);
    return () => this.#states.delete(listener);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.status === 401) return signedOut();
      }
      if (signal.aborted) return;
      this.#become('lost');
      this.#attempts += 1;
      const waitMs = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.#attempts, 6)) * (0.5 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENCE_MS);
    const ended = AbortSignal.any([signal, silent.signal]);
    try {
      const response = await fetch('/admin/api/live', { headers: authHeaders(), signal: ended, cache: 'no-store' });
      if (!response.ok || response.body === null) {
        throw new ApiError(response.status, 'live', `the change stream returned status ${response.status}`);
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENCE_MS);
        const messages = (rest + value).split('\n\n');
        rest = messages.pop() ?? '';
        for (const message of messages) this.#take(message);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #take(message: string): void {
    const data = message.split('\n').find((line) => line.startsWith('data: '));
    if (data === undefined) return;
    const now = JSON.parse(data.slice('data: '.length)) as LiveJson;
    const before = this.#seen;
    this.#seen = now;
    this.#attempts = 0;
    this.#become('live');
    if (before === null) return;
    for (const topic of liveTopics) {
      if (before.boot === now.boot && before.topics[topic] === now.topics[topic]) continue;
      for (const listener of this.#topics.get(topic) ?? []) listener();
    }
  }

  #become(state: LinkState): void {
    if (state === this.state) return;
    this.state = state;
    this.lostAtMs = state === 'lost' ? Date.now() : null;
    for (const listener of this.#states) listener();
  }
}

export const live = new Live();
