import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { LiveTopic } from '../registry/console-api.ts';
import { ApiError, get } from './api.ts';
import { type LinkState, live } from './live.ts';

export interface Resource<T> {
  /** The last that could be read; stays while it is read again, and when that fails. */
  readonly value: T | null;
  readonly error: ApiError | null;
  readonly again: () => void;
}

/** Changes that come in a burst are read once. */
const MIN_PAUSE_MS = 700;

interface ResourceState<T> {
  readonly path: string | null;
  readonly value: T | null;
  readonly error: ApiError | null;
}

/** Reads a path, and again whenever one of the topics changed or the connection is back. */
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
    /** What is being read is read to its end: changes may come faster than answers. */
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
  useEffect(() => live.onState(() => redraw((before) => before + 1)), []);
  return { state: live.state, lostAtMs: live.lostAtMs };
}

/** Draws again every so often, for texts that tell how long ago something was. */
export function useTick(everyMs: number): void {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((before) => before + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}

/** The value as it was `ms` ago, once it has stopped changing. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** The address behind `#`: the page, and what stands after it. */
export function useRoute(): readonly string[] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener('hashchange', changed);
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
