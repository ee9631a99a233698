import { JetStreamApiError } from '@nats-io/jetstream';
import { describe, expect, it } from 'vitest';
import { retryTransient } from '../../../src/server/queue/nats/nats-errors.ts';

const OFFLINE = 'no suitable peers for placement, peer offline';
const refusal = (code: number, err_code: number, description: string) =>
  new JetStreamApiError({ code, err_code, description });

/** Fails once with `error`, then answers. */
function failingOnce(error: Error): { attempts: number; work: () => Promise<string> } {
  const state = {
    attempts: 0,
    work: async () => {
      state.attempts++;
      if (state.attempts === 1) throw error;
      return 'created';
    },
  };
  return state;
}

describe('a request to NATS', () => {
  it('is repeated while a server of the cluster is still starting [cluster.streams]', async () => {
    const state = failingOnce(refusal(400, 10005, OFFLINE));
    await expect(retryTransient(5_000, state.work)).resolves.toBe('created');
    expect(state.attempts).toBe(2);
  });

  it('is repeated while there is no leader', async () => {
    const state = failingOnce(refusal(503, 10008, 'JetStream system temporarily unavailable'));
    await expect(retryTransient(5_000, state.work)).resolves.toBe('created');
  });

  it.each([
    ['too few servers for the replicas', refusal(400, 10005, 'no suitable peers for placement, insufficient storage')],
    ['an invalid name', refusal(400, 10052, 'invalid stream name')],
  ])('fails at once for a permanent reason: %s', async (_, error) => {
    const state = failingOnce(error);
    await expect(retryTransient(5_000, state.work)).rejects.toBe(error);
    expect(state.attempts).toBe(1);
  });

  it('fails with the last error when its time is up', async () => {
    const work = () => Promise.reject(refusal(400, 10005, OFFLINE));
    await expect(retryTransient(0, work)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining(OFFLINE),
    });
  });
});
