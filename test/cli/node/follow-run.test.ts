import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ApiClient } from '../../../src/cli/api-client.ts';
import { followRun } from '../../../src/cli/node/follow-run.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('follows a run on after a connection was lost while the run was parked', async () => {
  const streams = ['parked', 'succeeded'].map((status, id) =>
    Readable.from([`event: status\nid: ${id}\ndata: ${JSON.stringify({ status })}\n\n`]),
  );
  const client = { open: async () => streams.shift() as IncomingMessage } as unknown as ApiClient;
  const seen: unknown[] = [];
  const followed = followRun(client, '/run', ({ data }) => seen.push(data.status), new AbortController().signal);
  await vi.waitFor(() => expect(seen).toEqual(['parked']));
  await vi.advanceTimersByTimeAsync(1_000);
  await followed;
  expect(seen).toEqual(['parked', 'succeeded']);
});
