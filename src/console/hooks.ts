import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type LiveJson, type LiveTopic, liveTopics } from '../registry/console-api.ts';
import { ApiError, authHeaders, get, signedOut } from './api.ts';

export interface Resource<T> {
  /** Last value read successfully; stays while reloading and after a failure. */
  readonly value: T | null;
  readonly error: ApiError | null;
  readonly again: () => void;
}

/** Delay that combines a burst of changes into one read. */
const MIN_PAUSE_MS = 700;

interface ResourceState<T> {
  readonly path: string | null;
  readonly value: T | null;
  readonly error: ApiError | null;
}

/** Reads a path, and reads it again when one of the topics changes or the connection is restored. */
export function useResource<T>(path: string | null, topics: readonly LiveTopic[]): Resource<T> {
  const [state, setState] = useState<ResourceState<T>>({ path, value: null, error: null });
  const trigger = useRef(() => {});
  const again = useCallback(() => trigger.current(), []);
  const wanted = topics.join();
  useEffect(() => {
    if (path === null) return;
    const gone = new AbortController();
    let timer: ReturnType<typeof setTimeout> | null = null;
    let isReading = false;
    let isStale = false;
    let lastMs = 0;
    const read = async () => {
      timer = null;
      isReading = true;
      isStale = false;
      lastMs = Date.now();
      try {
        const value = await get<T>(path, gone.signal);
        if (!gone.signal.aborted) setState({ path, value, error: null });
      } catch (error) {
        if (gone.signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, 'page', String(error));
        setState((before) => ({ path, value: before.path === path ? before.value : null, error: problem }));
      }
      isReading = false;
      if (isStale) schedule();
    };
    /** A pending read is not aborted by a change: changes may be more frequent than responses. */
    const schedule = () => {
      if (isReading) isStale = true;
      else if (timer === null) {
        timer = setTimeout(() => void read(), Math.max(0, lastMs + MIN_PAUSE_MS - Date.now()));
      }
    };
    trigger.current = schedule;
    const stops = topics.map((topic) => live.onTopic(topic, schedule));
    stops.push(
      live.onState(() => {
        if (live.state === 'live') schedule();
      }),
    );
    void read();
    return () => {
      gone.abort();
      if (timer !== null) clearTimeout(timer);
      for (const stop of stops) stop();
    };
  }, [path, wanted]);
  const isOther = state.path !== path;
  return { value: isOther ? null : state.value, error: isOther ? null : state.error, again };
}

export function useLink(): { readonly state: LinkState; readonly lostAtMs: number | null } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const changed = () => redraw((before) => before + 1);
    const stop = live.onState(changed);
    changed(); // the state may have changed since the first rendering
    return stop;
  }, []);
  return { state: live.state, lostAtMs: live.lostAtMs };
}

/** Renders periodically, for relative times. */
export function useTick(everyMs: number): void {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((before) => before + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}

/** The value after it has not changed for `ms`. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** The fragment of the address: the page and its parameters. */
export function useRoute(): readonly string[] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener('hashchange', changed);
    changed(); // the address may have changed since the first rendering
    return () => removeEventListener('hashchange', changed);
  }, []);
  return partsOf(hash);
}

export function partsOf(hash: string): readonly string[] {
  return hash
    .replace(/^#\/?/, '')
    .split('/')
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return '';
      }
    });
}

export function linkTo(...parts: readonly string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

/** Silence after which the connection counts as lost. Heartbeats arrive every five seconds. */
const SILENCE_MS = 15_000;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 8_000;

export type LinkState = 'connecting' | 'live' | 'lost';

/**
 * Subscription to changed topics by server-sent events. Reads the stream with `fetch`, because `EventSource` cannot send a
 * token. Topic numbers are compared with the last seen ones, also after a reconnect, so no change is missed.
 */
export class Live {
  state: LinkState = 'connecting';
  /** Time of the disconnect; null while connected. */
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
