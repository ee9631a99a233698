import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import type { NodeAccess } from '../../src/node/node-access.ts';
import { RunStreams } from '../../src/node/run-streams.ts';
import type { CallerLimits } from '../../src/server/http/caller-limits.ts';
import type { RunQueue } from '../../src/server/queue/run-queue.ts';
import type { Identity } from '../../src/server/records/permissions.ts';

const ann: Identity = {
  ...{ name: 'ann', roles: ['submitter'], namespace: 'default', mayReadJournals: false, expiresAtMs: null },
};

/** The response to an upgrade by a caller that is identified as `who`. */
async function refusal(who: Awaited<ReturnType<NodeAccess['identify']>>, find: RunQueue['find']): Promise<string> {
  const streams = new RunStreams({
    queue: { find, onChange: () => () => {} } as unknown as RunQueue,
    node: 'here',
    access: { identify: async () => who } as unknown as NodeAccess,
    origins: { scheme: 'http', hosts: [], origins: [] },
    callers: {} as CallerLimits,
    log: () => {},
  });
  const request = { url: '/api/v1/executions/run-1/streams/ws', headers: { host: 'localhost' }, socket: {} };
  const socket = new PassThrough();
  streams.upgrade(request as unknown as IncomingMessage, socket, Buffer.alloc(0));
  return text(socket);
}

const none = async () => null;
const away = () => Promise.reject(new Error('no response from NATS'));

it.each([
  ['an unknown token', 'unknown', none, /^HTTP\/1\.1 401 .*not valid for this run/s],
  ['a run that does not exist', ann, none, /^HTTP\/1\.1 401 .*not valid for this run/s],
  ['too many unknown tokens', 'too_many', none, /^HTTP\/1\.1 429 .*retry-after: 1.*too many unknown tokens/is],
  [
    'a token that cannot be checked',
    'unavailable',
    none,
    /^HTTP\/1\.1 503 .*retry-after: 1.*registry is unreachable/is,
  ],
  ['a queue that does not answer', ann, away, /^HTTP\/1\.1 503 .*retry-after: 1.*queue of runs is unavailable/is],
] as const)('refuses an upgrade with %s', async (_what, who, find, expected) => {
  expect(await refusal(who, find)).toMatch(expected);
});
