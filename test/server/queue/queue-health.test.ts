import type { NatsConnection } from '@nats-io/transport-node';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PROBE_MS, probeStorage, QueueHealth } from '../../../src/server/queue/nats/queue-health.ts';

/** What users are promised: docs/cluster.md, "Guarantees". */
const NOTICED_MS = 5_000;
let health: QueueHealth | null = null;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  health?.close();
  vi.useRealTimers();
});

const timeout = () =>
  new Promise<never>((_, reject) => setTimeout(() => reject(new Error('timeout')), PROBE_MS).unref());

it('notices within five seconds that a queue does not answer, and that it answers again [node.queue-away]', async () => {
  let isAway = false;
  let probes = 0;
  const opened = new QueueHealth(() => {
    probes++;
    return isAway ? timeout() : Promise.resolve();
  });
  health = opened;
  while (probes === 0) await vi.advanceTimersToNextTimerAsync();
  expect(opened.problem).toBeNull();
  // The worst case: the last probe was answered just now.
  isAway = true;
  await vi.advanceTimersByTimeAsync(NOTICED_MS);
  expect(opened.problem).toBe('timeout');
  isAway = false;
  await vi.advanceTimersByTimeAsync(NOTICED_MS);
  expect(opened.problem).toBeNull();
});

it('sends no probe after it was closed', async () => {
  let probes = 0;
  const opened = new QueueHealth(async () => void probes++);
  opened.close();
  await vi.advanceTimersByTimeAsync(NOTICED_MS);
  expect([probes, vi.getTimerCount()]).toEqual([0, 0]);
});

it('creates its stream again where a hung server still seems to have it [node.queue-away]', async () => {
  let isHung = true;
  const asked: string[] = [];
  const answers: Readonly<Record<string, () => Promise<unknown>>> = {
    // Never "no responders": the other servers do not know yet that the server with the stream hangs.
    'spear.health.probe': () => (isHung ? timeout() : Promise.resolve({})),
    '$JS.API.STREAM.DELETE.SPEAR_HEALTH': async () => ({}),
    '$JS.API.STREAM.CREATE.SPEAR_HEALTH': async () => {
      isHung = false;
      return {};
    },
  };
  const request = async (subject: string) => {
    asked.push(subject);
    const answer = await answers[subject]?.();
    return { json: () => answer };
  };
  const nc = { request } as unknown as NatsConnection;
  const opened = new QueueHealth(() => probeStorage(nc, 3));
  health = opened;
  await vi.advanceTimersByTimeAsync(NOTICED_MS);
  expect(opened.problem).toContain('nothing was stored');
  await vi.advanceTimersByTimeAsync(NOTICED_MS);
  expect(opened.problem).toBeNull();
  expect(asked.slice(0, 3).map((subject) => subject.split('.').at(-2))).toEqual(['health', 'DELETE', 'CREATE']);
});
