import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RegistryCache, type RegistryCacheOptions } from '../../src/registry-client/cache.ts';
import type { RegistryChange } from '../../src/registry-client/snapshot.ts';
import { sampleRecord } from '../server/records/server-samples.ts';
import { FakeEnvironment, settled } from './fake-environment.ts';
import { event, FakeSource, heartbeat, listing } from './fake-source.ts';

let environment: FakeEnvironment;
let source: FakeSource;
let cache: RegistryCache;
let changes: RegistryChange[];
let states: string[];

function make(options: Partial<RegistryCacheOptions> = {}): void {
  cache = new RegistryCache({ source, environment, ...options });
  changes = [];
  states = [];
  cache.onChange((change) => changes.push(change));
  cache.onStatus((status) => states.push(status.state));
}

async function start(options: Partial<RegistryCacheOptions> = {}): Promise<void> {
  make(options);
  cache.start();
  await settled();
}

beforeEach(() => {
  environment = new FakeEnvironment();
  source = new FakeSource(listing(5, ['a', 'b']));
});
afterEach(async () => {
  await cache.close();
  expect(environment.pendingTimers).toBe(0);
});

const ids = () => [...(cache.snapshot()?.records.keys() ?? [])].sort();
const state = () => cache.status().state;

describe('the cache at start', () => {
  it('lists, then watches from the listed revision', async () => {
    make();
    expect(cache.status()).toEqual({ state: 'starting', epoch: null, revision: null, ageMs: null, lastError: null });
    expect(cache.view()).toBeNull();
    cache.start();
    cache.start();
    await settled();
    expect(source.lists).toHaveLength(1);
    expect(source.streams.map((stream) => stream.since)).toEqual([5]);
    expect(cache.status()).toEqual({ state: 'ready', epoch: 'e1', revision: 5, ageMs: 0, lastError: null });
    expect(changes).toMatchObject([{ upserted: ['a', 'b'], deleted: [] }]);
    expect(states).toEqual(['ready']);
  });

  it('becomes ready with an empty registry', async () => {
    source.answer = listing(0);
    await start();
    expect(changes).toMatchObject([{ upserted: [], deleted: [], snapshot: { revision: 0 } }]);
  });

  it('resolves ready() with the first snapshot', async () => {
    make();
    const ready = cache.ready(1_000);
    cache.start();
    expect(await ready).toBe(true);
    expect(await cache.ready(0)).toBe(true);
  });

  it('resolves ready() with false at the deadline', async () => {
    source.answer = 'never';
    await start();
    const ready = cache.ready(1_000);
    await environment.advance(999);
    expect(await Promise.race([ready, 'waiting'])).toBe('waiting');
    await environment.advance(1);
    expect(await ready).toBe(false);
    const late = cache.ready(60_000);
    await cache.close();
    expect(await late).toBe(false);
    expect(await cache.ready(60_000)).toBe(false);
  });

  it('retries with growing delays until a list succeeds', async () => {
    source.answer = new Error('connection refused');
    environment.randomValue = 0.999_999;
    await start({ timing: { backoff: { firstMs: 100, maxMs: 1_000 } } });
    const pauses: number[] = [];
    for (let i = 0; i < 6; i++) {
      pauses.push(environment.nextIn);
      await environment.advance(environment.nextIn);
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000]);
    expect(cache.status()).toMatchObject({ state: 'starting', lastError: 'connection refused' });
    source.answer = listing(5, ['a']);
    await environment.advance(1_000);
    expect(state()).toBe('ready');
    expect(cache.status().lastError).toBeNull();
  });

  it('randomizes delays between half and all of the backoff', async () => {
    source.answer = new Error('no');
    environment.randomValue = 0;
    await start({ timing: { backoff: { firstMs: 100, maxMs: 30_000 } } });
    expect(environment.nextIn).toBe(50);
    environment.randomValue = 0.5;
    await environment.advance(50);
    expect(environment.nextIn).toBe(150);
  });

  it('aborts a list without a response at its deadline', async () => {
    source.answer = 'never';
    await start({ timing: { listTimeoutMs: 700 } });
    await environment.advance(700);
    expect(cache.status().lastError).toBe('the list took longer than 700 ms');
    expect(source.lists[0]?.aborted).toBe(true);
    source.answer = listing(1, ['a']);
    await environment.advance(30_000);
    expect(state()).toBe('ready');
  });
});

describe('events', () => {
  it('are applied in order, each as a new snapshot', async () => {
    await start();
    const before = cache.snapshot();
    await environment.advance(10);
    source.stream.send(
      event(5, 6, { upserts: [sampleRecord('c')] }),
      event(6, 9, { deletes: ['a', 'unknown'] }),
      event(9, 10, { upserts: [sampleRecord('b', { display_name: 'B' })] }),
    );
    await settled();
    expect(ids()).toEqual(['b', 'c']);
    expect(cache.snapshot()).toMatchObject({ revision: 10 });
    expect([...(before?.records.keys() ?? [])]).toEqual(['a', 'b']);
    expect(changes.slice(1).map(({ upserted, deleted }) => ({ upserted, deleted }))).toEqual([
      { upserted: ['c'], deleted: [] },
      { upserted: [], deleted: ['a'] },
      { upserted: ['b'], deleted: [] },
    ]);
    expect(source.lists).toHaveLength(1);
  });

  it('name exactly the servers that must be connected again', async () => {
    await start();
    source.stream.send(
      event(5, 6, {
        upserts: [
          sampleRecord('a', { allowed_tools: ['read_*'] }),
          sampleRecord('b', { stdio: { command: 'other' } }),
          sampleRecord('c'),
        ],
      }),
    );
    await settled();
    expect(changes[1]).toMatchObject({ upserted: ['a', 'b', 'c'] });
  });

  it('that change nothing notify no listener, and old events are ignored', async () => {
    await start();
    const again = sampleRecord('a', { mod_revision: 6, updated_at_ms: 3 });
    source.stream.send(event(3, 5, { deletes: ['a'] }), event(5, 6, { upserts: [again] }));
    await settled();
    expect(cache.snapshot()?.revision).toBe(6);
    expect(ids()).toEqual(['a', 'b']);
    expect(changes).toHaveLength(1);
    expect(source.lists).toHaveLength(1);
  });

  it('without records cause one list for many events', async () => {
    source.canWatchRecords = false;
    source.answer = listing(5, ['a'], '');
    await start();
    source.answer = listing(8, ['a', 'c'], '');
    source.stream.send(event(0, 6, { epoch: '' }), event(0, 7, { epoch: '' }), event(0, 8, { epoch: '' }));
    await settled();
    expect(source.lists).toHaveLength(2);
    expect(source.streams).toHaveLength(1);
    expect(cache.snapshot()).toMatchObject({ revision: 8, epoch: '' });
    expect(changes[1]).toMatchObject({ upserted: ['c'], deleted: [] });
  });

  it('reach every listener, even after a listener that throws', async () => {
    const thrown: unknown[] = [];
    const listeners = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => thrown.push(error.message));
    make();
    const stop = cache.onChange(() => {
      throw new Error('a bug');
    });
    const seen: number[] = [];
    cache.onChange((change) => seen.push(change.snapshot.revision));
    cache.start();
    await settled();
    stop();
    source.stream.send(event(5, 6, { deletes: ['a'] }));
    await settled();
    process.removeAllListeners('uncaughtException');
    for (const listener of listeners) process.on('uncaughtException', listener);
    expect(seen).toEqual([5, 6]);
    expect(thrown).toEqual(['a bug']);
  });
});

describe('a full resync', () => {
  it.each<[string, () => void, string]>([
    ['a gap', () => source.stream.send(event(6, 7)), 'the watch stream jumped from revision 5 to 6'],
    ['an event that starts before the snapshot', () => source.stream.send(event(4, 7)), 'jumped from revision 5 to 4'],
    ['another epoch', () => source.stream.send(event(5, 6, { epoch: 'e2' })), 'the registry epoch changed'],
    ['another epoch in a heartbeat', () => source.stream.send(heartbeat(5, 'e2')), 'the registry epoch changed'],
    ['a heartbeat from the future', () => source.stream.send(heartbeat(6)), 'missed a change'],
    ['a stream that ends', () => source.stream.end(), 'the watch stream ended'],
    ['a stream that fails', () => source.stream.fail(new Error('ABORTED')), 'ABORTED'],
  ])('follows %s, and the old snapshot serves until it is done', async (_what, happen, message) => {
    await start();
    const before = cache.snapshot();
    const broken = source.stream;
    source.answer = listing(9, ['b', 'd'], 'e2');
    happen();
    await settled();
    expect(cache.status()).toMatchObject({ state: 'degraded', lastError: expect.stringContaining(message) });
    expect(cache.snapshot()).toBe(before);
    expect(broken.signal.aborted).toBe(true);
    await environment.advance(200);
    expect(state()).toBe('ready');
    expect(ids()).toEqual(['b', 'd']);
    expect(changes[1]).toMatchObject({ upserted: ['d'], deleted: ['a'] });
    expect(source.stream.since).toBe(9);
    expect(states).toEqual(['ready', 'degraded', 'ready']);
  });

  it.each([
    ['another epoch', 9, 'e2', 1],
    ['a higher revision', 9, 'e1', 0],
  ])('reports once that the registry was replaced when it has %s', async (_what, revision, epoch, times) => {
    await start();
    const replaced: string[] = [];
    cache.onReplaced((now) => replaced.push(`${now.epoch} ${now.revision}`));
    const told = changes.length;
    // The records are equal, but the audit log must have the new epoch.
    source.answer = listing(revision, ['a', 'b'], epoch);
    source.stream.end();
    await environment.advance(200);
    source.stream.end();
    await environment.advance(2_000);
    expect(replaced).toEqual(Array.from({ length: times }, () => `${epoch} ${revision}`));
    expect(changes.length - told).toBe(times);
  });

  it('does not go back within one epoch: a registry that is behind is retried [registry.copies.forward]', async () => {
    await start();
    const { revision = 0 } = cache.snapshot() ?? {};
    source.answer = listing(revision - 1, ['a'], 'e1');
    source.stream.end();
    await environment.advance(200);
    expect(cache.snapshot()?.revision).toBe(revision);
    expect(state()).toBe('degraded');
    source.answer = listing(revision + 1, ['a'], 'e1');
    await environment.advance(5_000);
    expect(cache.snapshot()?.revision).toBe(revision + 1);
    expect(state()).toBe('ready');
  });

  it('accepts a list of a registry without epochs whose revision went back', async () => {
    await start();
    source.answer = listing(2, ['z'], 'e2');
    source.stream.end();
    await environment.advance(200);
    expect(cache.snapshot()).toMatchObject({ revision: 2, epoch: 'e2' });
    expect(ids()).toEqual(['z']);
  });

  it('serves the old snapshot with its age while lists fail', async () => {
    await start();
    source.answer = new Error('connection refused');
    source.stream.fail(new Error('connection lost'));
    await environment.advance(300_000);
    expect(ids()).toEqual(['a', 'b']);
    expect(cache.status()).toMatchObject({ state: 'degraded', lastError: 'connection refused', ageMs: 300_000 });
    expect(cache.view()?.stale).toBe(false);
    expect(states).toEqual(['ready', 'degraded']);
  });

  it('backs off while no stream works', async () => {
    environment.randomValue = 0.999_999;
    source.watchError = new Error('unimplemented');
    await start({ timing: { backoff: { firstMs: 100, maxMs: 1_000 } } });
    await environment.advance(5_500);
    // 0, 100, 300, 700, 1500, 2500, 3500, 4500, 5500
    expect(source.lists).toHaveLength(9);
    expect(state()).toBe('degraded');
    expect(ids()).toEqual(['a', 'b']);
  });

  it('resets the backoff after a stream that worked', async () => {
    environment.randomValue = 0.999_999;
    source.answer = new Error('down');
    await start({ timing: { backoff: { firstMs: 100, maxMs: 10_000 } } });
    await environment.advance(1_500);
    source.answer = listing(5, ['a']);
    await environment.advance(1_600);
    expect(state()).toBe('ready');
    source.stream.send(heartbeat(5));
    await settled();
    const lists = source.lists.length;
    source.stream.end();
    await environment.advance(100);
    expect(source.lists).toHaveLength(lists + 1);
  });
});

describe('polling', () => {
  it('detects a change that a silent stream missed, and replaces the stream', async () => {
    await start();
    const silent = source.stream;
    source.answer = listing(6, ['a', 'b', 'c']);
    await environment.advance(29_999);
    expect(source.lists).toHaveLength(1);
    await environment.advance(1);
    expect(ids()).toEqual(['a', 'b', 'c']);
    expect(silent.signal.aborted).toBe(true);
    await environment.advance(200);
    expect(source.stream).not.toBe(silent);
    expect(source.stream.since).toBe(6);
    expect(state()).toBe('ready');
  });

  it.each([
    [0, 30_000],
    [0.5, 75_000],
    [0.999_999, 120_000],
  ])('runs at a random interval between 30 and 120 seconds: %s', async (random, expected) => {
    environment.randomValue = random;
    await start();
    await environment.advance(expected - 1);
    expect(source.lists).toHaveLength(1);
    await environment.advance(1);
    expect(source.lists).toHaveLength(2);
    await environment.advance(expected);
    expect(source.lists).toHaveLength(3);
  });

  it('confirms the snapshot if nothing changed, and does not touch the stream', async () => {
    await start();
    await environment.advance(30_000);
    expect(source.lists).toHaveLength(2);
    expect(source.streams).toHaveLength(1);
    expect(cache.status().ageMs).toBe(0);
    expect(changes).toHaveLength(1);
  });

  it('is skipped while heartbeats confirm the snapshot', async () => {
    await start();
    for (let i = 0; i < 20; i++) {
      await environment.advance(10_000);
      source.stream.send(heartbeat(5));
      await settled();
      expect(cache.status().ageMs).toBe(0);
    }
    expect(source.lists).toHaveLength(1);
    await environment.advance(60_000);
    expect(source.lists.length).toBeGreaterThan(1);
  });

  it('that fails degrades the cache, is retried sooner, and does not touch the stream', async () => {
    await start();
    source.answer = new Error('too busy');
    await environment.advance(30_000);
    expect(cache.status()).toMatchObject({ state: 'degraded', lastError: 'too busy' });
    expect(environment.nextIn).toBeLessThan(1_000);
    source.stream.send(event(5, 6, { deletes: ['a'] }));
    await settled();
    expect(state()).toBe('ready');
    expect(ids()).toEqual(['b']);
    expect(source.streams).toHaveLength(1);
  });

  it('does not undo events that arrived while it was in flight', async () => {
    await start();
    let answer: (value: ReturnType<typeof listing>) => void = () => {};
    source.list = () => new Promise((resolve) => (answer = resolve));
    await environment.advance(30_000);
    source.stream.send(event(5, 7, { upserts: [sampleRecord('c')] }));
    await environment.advance(50);
    answer(listing(6, ['a', 'b']));
    await settled();
    expect(cache.status().ageMs).toBe(50);
    expect(cache.snapshot()?.revision).toBe(7);
    expect(ids()).toEqual(['a', 'b', 'c']);
  });

  it('detects a registry that was replaced', async () => {
    await start();
    source.answer = listing(3, ['x'], 'e2');
    await environment.advance(30_000);
    expect(cache.snapshot()?.revision).toBe(3);
    expect(ids()).toEqual(['x']);
  });
});

describe('max_staleness_ms', () => {
  it('makes an unconfirmed snapshot stale until it is confirmed again', async () => {
    await start({ maxStalenessMs: 60_000 });
    source.answer = new Error('gone');
    source.stream.fail(new Error('gone'));
    await environment.advance(60_000);
    expect(state()).toBe('degraded');
    expect(cache.view()?.stale).toBe(false);
    await environment.advance(1);
    expect(state()).toBe('stale');
    expect(cache.view()).toMatchObject({ stale: true });
    expect(states).toEqual(['ready', 'degraded', 'stale']);
    source.answer = listing(5, ['a', 'b']);
    await environment.advance(30_000);
    expect(cache.view()?.stale).toBe(false);
    expect(states).toEqual(['ready', 'degraded', 'stale', 'ready']);
  });

  it('uses the clock with the larger age, and ignores a clock that was set back', async () => {
    await start({ maxStalenessMs: 60_000 });
    source.answer = new Error('gone');
    source.stream.fail(new Error('gone'));
    await environment.advance(50_000);
    environment.wallStepMs = -500; // as a clock does that is kept right
    expect(cache.view()?.stale).toBe(false);
    environment.wallStepMs = -55_000;
    expect(cache.view()?.stale).toBe(true);
    environment.wallStepMs = 11_000; // the machine slept
    expect(cache.view()?.stale).toBe(true);
    environment.wallStepMs = -10_000;
    await environment.advance(10_001);
    expect(cache.view()?.stale).toBe(true);
  });

  it('never makes the snapshot of a healthy registry without heartbeats stale, however short it is', async () => {
    environment.randomValue = 0.999_999;
    await start({ maxStalenessMs: 5_000 });
    await environment.advance(120_000);
    expect(states).toEqual(['ready']);
  });
});

describe('closing', () => {
  it('ends the stream and every pending ready(), and no event follows', async () => {
    await start();
    const { stream } = source;
    await cache.close();
    expect(stream.signal.aborted).toBe(true);
    stream.send(event(5, 6, { deletes: ['a'] }));
    await environment.advance(300_000);
    expect(ids()).toEqual(['a', 'b']);
    expect(source.lists).toHaveLength(1);
    expect(states).toEqual(['ready']);
    cache.start();
    await cache.close();
  });

  it('does not wait for a source without a response', async () => {
    source.answer = 'never';
    await start();
    await cache.close();
    expect(source.lists[0]?.aborted).toBe(true);
  });
});
